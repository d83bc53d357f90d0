"""``etl grok``: tries a pattern on the lines of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from etl.api import Finding
from etl.inference.fields import percent
from etl.inference.match_stops import Grok, MatchStop
from etl.inference.sample import MAX_LINES, open_sample
from etl.testing.values import to_plain
from etl.testing.yaml_writer import format_flow_mapping

EXAMPLES = """
\b
Examples:
  etl grok '%{IP:source.ip} %{WORD:verb}' access.log
  etl grok -d 'ID=[A-Z]{2}\\d+' '%{ID:id}' app.log --show 3
"""

SHOWN_CHARACTERS = 100
"""Number of characters of a line that are shown around the column where it stops matching."""

MAX_UNMATCHED = 1_000
"""Maximum number of lines without a match that are examined."""

MAX_PREFIX_CHARACTERS = 80
"""Number of characters shown of the pattern's matching prefix: its last ones."""

MAX_STOPS = 10
"""Maximum number of listed parts of the pattern at which lines stop matching."""


@click.command("grok", epilog=EXAMPLES)
@click.argument("pattern")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-d", "--define", "definitions", multiple=True, metavar="NAME=EXPR", help="A pattern of your own; may be repeated.")
@click.option("--patterns", "files", multiple=True, type=click.Path(exists=True, dir_okay=False), help="A file of patterns.")
@click.option("--pattern-set", type=click.Choice(["ecs-v1", "legacy"]), default="ecs-v1", show_default=True)
@click.option(
    "--show",
    default=5,
    show_default=True,
    type=click.IntRange(min=0),
    help="Number of matching lines, and of other lines, that are shown.",
)
@click.option(
    "--lines", default=MAX_LINES, show_default=True, type=click.IntRange(min=1), help="Maximum number of lines that are tried."
)
def command(
    pattern: str, file: Path, definitions: tuple[str, ...], files: tuple[str, ...], pattern_set: str, show: int, lines: int
) -> None:
    """Try a grok PATTERN on the lines of FILE: what it captures, and where other lines stop matching.

    The exit status is 1 when no line matches.
    """
    options = {"pattern_definitions": _parse_definitions(definitions), "pattern_files": list(files), "pattern_set": pattern_set}
    grok = Grok(pattern, options)
    errors = grok.errors()
    if errors:
        raise click.ClickException(_format_finding(pattern, errors[0]))
    with open_sample(file, lines) as sample:
        texts = sample.lines
    if not _print_report(grok, texts, file, show):
        click.get_current_context().exit(1)


def _parse_definitions(pairs: Sequence[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.UsageError(f"--define takes NAME=EXPRESSION, not {pair!r}")
    return dict(pair.split("=", 1) for pair in pairs)


def _format_finding(pattern: str, finding: Finding) -> str:
    """Return a finding's message, and the pattern with a mark at the character it is about."""
    mark = "" if finding.at is None else f"\n  {pattern}\n  {' ' * finding.at}^"
    hint = f"\n  hint: {finding.hint}" if finding.hint else ""
    return f"{finding.code}: {finding.message}{mark}{hint}"


def _print_report(grok: Grok, lines: Sequence[str], file: Path, show: int) -> int:
    """Print matches and stops; returns the number of lines that match."""
    parsed = grok.parse(lines)
    failed = [False] * len(lines) if parsed.failed is None else parsed.failed.to_pylist()
    bad = [number for number, no in enumerate(failed) if no]
    good = len(lines) - len(bad)
    share = percent(good / len(lines))
    click.echo(click.style(f"{file}: {good:,} of {len(lines):,} lines match, {share}", bold=True))
    matching = [number for number, no in enumerate(failed) if not no][:show]
    captured = {name: column.take(matching).to_pylist() for name, column in parsed.columns.items()} if matching else {}
    for at, number in enumerate(matching):
        row = {name: to_plain(values[at]) for name, values in captured.items() if values[at] is not None}
        click.echo(f"  line {number + 1}: {format_flow_mapping(row)}")
    if bad:
        _print_stops(grok, lines, bad[:MAX_UNMATCHED], len(bad), show)
    return good


def _print_stops(grok: Grok, lines: Sequence[str], bad: Sequence[int], all_bad: int, show: int) -> None:
    stops = dict(zip(bad, grok.stops([lines[number] for number in bad]), strict=True))
    kinds = Counter((stop.prefix, stop.expected, stop.within) for stop in stops.values())
    more = f", of which the first {len(bad):,} were examined" if len(bad) < all_bad else ""
    click.echo(click.style(f"\n{all_bad:,} do not{more}:", bold=True))
    for kind, count in kinds.most_common(MAX_STOPS):
        within = f" in {', '.join(kind[2])}" if kind[2] else ""
        click.echo(f"  {count:,} match {_format_prefix(kind[0])} and then not {click.style(kind[1], fg='cyan')}{within}")
        for number in [number for number, stop in stops.items() if (stop.prefix, stop.expected, stop.within) == kind][
            : min(show, 2)
        ]:
            _print_stop(number, lines[number], stops[number])


def _format_prefix(text: str) -> str:
    """Return the end of the pattern's longest matching prefix, for a message."""
    shown = text if len(text) <= MAX_PREFIX_CHARACTERS else f"…{text[-MAX_PREFIX_CHARACTERS:]}"
    return f"`{shown}`" if text else "nothing of it"


def _print_stop(number: int, line: str, stop: MatchStop) -> None:
    """Print the line around the column where it stops matching, and a mark under the column."""
    first = max(0, min(stop.column - 1 - SHOWN_CHARACTERS // 2, len(line) - SHOWN_CHARACTERS))
    shown = "".join(character if character.isprintable() else "·" for character in line[first : first + SHOWN_CHARACTERS])
    head = f"    line {number + 1}, column {stop.column}: "
    lead = "…" if first else ""
    click.echo(f"{head}{lead}{shown}{'…' if first + SHOWN_CHARACTERS < len(line) else ''}")
    click.echo(" " * (len(head) + len(lead) + stop.column - 1 - first) + click.style("^", fg="red", bold=True))
