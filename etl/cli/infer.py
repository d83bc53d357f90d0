"""``etl infer``: the recipe or parser that reads a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from etl.api import EtlError, nearest
from etl.cli.activity import activity
from etl.inference.fields import fields_block, find_fields, percent
from etl.inference.grok.proposal import describe_patterns
from etl.inference.match import Match
from etl.inference.sample import MAX_LINES, Sample, open_sample
from etl.inference.search import ENOUGH, find_matches
from etl.testing.yaml_writer import format_flow_mapping

EXAMPLES = """
\b
Examples:
  etl infer /var/log/auth.log            which recipes and parsers read it
  etl infer app.log --fields             the fields, to paste under a parser
  etl infer app.log --as json --fields   those of another parser than the best
"""

MAX_ROWS = 12
"""Maximum number of lines of the table."""
MAX_EXAMPLES, MAX_EXAMPLE_CHARACTERS = 3, 120
"""Maximum number of unread lines that are shown, and of characters of each."""


@click.command("infer", epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--fields", "fields", is_flag=True, help="Print the fields, their types and how many events lack them.")
@click.option("--as", "chosen", metavar="NAME", help="Show this recipe or parser instead of the best.")
@click.option("--lines", default=MAX_LINES, show_default=True, type=click.IntRange(min=1), help="Lines of the sample at most.")
def command(file: Path, fields: bool, chosen: str | None, lines: int) -> None:
    """Find the format of a file: try parsers, and the recipes whose own samples look like it, on its first lines.

    Where none of them reads it, patterns are made from the lines themselves.
    """
    with open_sample(file, lines) as sample:
        with activity(f"reading {file}") as doing:
            found = find_matches(sample, chosen, doing)
        if not found:
            raise EtlError(nothing_reads(sample))
        one = _choose(found, chosen)
        if fields:
            _print_fields(one, sample)
        else:
            _print_table(found, one, sample)


def nothing_reads(sample: Sample) -> str:
    """The message if no candidate reads any line, with what to try next."""
    return (
        f"no recipe and no parser reads a line of {sample.origin}, such as {sample.lines[0][:120]!r}; "
        f"write a pattern and try it: etl grok '%{{WORD:first}}' {sample.origin}"
    )


def _choose(found: Sequence[Match], name: str | None) -> Match:
    names = [one.candidate.name for one in found]
    if name is None:
        return found[0]
    if name not in names:
        hint = nearest(name, names) or f"what reads it is: {', '.join(names)}"
        raise click.UsageError(f"no recipe or parser {name!r} reads a line of it; {hint}")
    return found[names.index(name)]


def _print_table(found: Sequence[Match], best: Match, sample: Sample) -> None:
    click.echo(click.style(f"{sample.origin}: {len(sample.lines):,} lines", bold=True))
    width = max(len(one.candidate.name) for one in found[:MAX_ROWS])
    click.echo(f"  {'reads':>6}  {'rejects':>7}  {'fields':>6}  {'':6}  name")
    for one in found[:MAX_ROWS]:
        about = one.candidate
        numbers = f"{percent(one.rate):>6}  {percent(one.rejected / one.events):>7}  {one.filled:6.1f}"
        click.echo(f"  {numbers}  {about.kind:6}  {about.name:<{width}}  {about.about}".rstrip())
    if len(found) > MAX_ROWS:
        click.echo(f"  … {len(found) - MAX_ROWS} more")
    _print_patterns(best)
    _print_unread(best)
    click.echo(f"\nan event, by {best.candidate.name}:")
    for name, value in best.example().items():
        click.echo(f"  {format_flow_mapping({name: value})[1:-1]}")
    click.echo(f"\nnext: etl init --for {sample.origin}", err=True)


def _print_patterns(best: Match) -> None:
    made = best.candidate.proposal
    if made is None:
        return
    if made.multiline:
        click.echo(f"\nevents have several lines; the first one: {made.multiline}")
    for name, text in made.definitions.items():
        click.echo(f"\n{name}: {text}" if len(text) < MAX_EXAMPLE_CHARACTERS else f"\n{name}:\n  {text}")
    click.echo("\npatterns made from these lines, and the events of each:")
    for line in describe_patterns(made.patterns):
        click.echo(f"  {line}")
    for note in made.notes:
        click.echo(f"  note: {note}")


def _print_unread(best: Match) -> None:
    """Print examples of unread lines, if there are many."""
    if best.rate >= ENOUGH:
        return
    click.echo(f"\n{best.candidate.name} reads only {percent(best.rate)} of the events; it does not read, for example:")
    for text in best.unread[:MAX_EXAMPLES]:
        line = text.split("\n", 1)[0]
        click.echo(f"  {line[:MAX_EXAMPLE_CHARACTERS]}{'…' if len(line) > MAX_EXAMPLE_CHARACTERS else ''}")


def _print_fields(one: Match, sample: Sample) -> None:
    about = one.candidate
    click.echo(f"# {about.kind} {about.name} reads {one.read:,} of {one.events:,} events of {sample.origin}")
    for line in fields_block(find_fields(one)):
        click.echo(line)
