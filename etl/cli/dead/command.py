"""``etl dead``: the dead letters of a pipeline."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import click
import pyarrow as pa

from etl.cli.dead.changes import drop, export, replay
from etl.cli.dead.letters import Letters, add_letters, load_letters


@click.group()
def command() -> None:
    """Show, export, replay and drop the events that a pipeline rejected.

    FILE is the pipeline file of the run, with the same --state, --set and --env-file. NAME is a pipeline of a server, which is
    found by --server, $ETL_SERVER, or its state folder on this machine. Letters that were replayed or dropped are settled: no
    command shows them again.

    \b
    Examples:
      etl dead count ssh.yaml
      etl dead show ssh.yaml --code grok-failed --since 2026-01-31
      etl dead export ssh.yaml failed.log --at grok      their lines, to try patterns on
      etl dead replay ssh.yaml                           after the file is mended
      etl dead drop ssh.yaml --text healthcheck
      etl dead count security/ssh --server https://etl.example.org:8321
    """


@command.command("count")
@add_letters
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="A table, or JSON lines.")
def count_letters(form: str, **options: Any) -> None:
    """Count letters by where and why they were rejected, with the most frequent reason and an example of each.

    `reasons` is the number of different reasons, which may name values.
    """
    from etl.cli.state.rows import print_rows

    letters = load_letters(**options)
    groups = letters.groups()
    if groups or form == "json":
        rows = [{**group, "reason": _cut(group["reason"]), "example": _cut(group["example"])} for group in groups]
        print_rows(pa.Table.from_pylist(rows, _COUNTS), form)
    _print_counts(sum(group["events"] for group in groups), letters.count_settled())


_COUNTS = pa.schema(
    [
        ("events", pa.int64()),
        ("at", pa.string()),
        ("code", pa.string()),
        ("reasons", pa.int64()),
        ("reason", pa.string()),
        ("last", pa.timestamp("us", "UTC")),
        ("example", pa.string()),
    ]
)

_LONGEST_CELL = 120
"""Characters of a text in a table."""


def _cut(text: str | None) -> str:
    return (text or "")[:_LONGEST_CELL] + ("…" if len(text or "") > _LONGEST_CELL else "")


def _print_counts(events: int, done: int) -> None:
    text = f"{events:,} dead letter{'' if events == 1 else 's'}" if events else "no dead letters"
    click.echo(f"{text}{f'; {done:,} more are replayed or dropped' if done else ''}", err=True)


@command.command()
@add_letters
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="The last N letters.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="A paragraph each, or JSON lines.")
def show(limit: int, form: str, **options: Any) -> None:
    """Show the last letters: where and why each was rejected, its event, and its earlier rejections if it was replayed."""
    letters = load_letters(**options)
    last: list[dict[str, Any]] = []
    total = 0
    for batch in letters.batches():
        total += batch.num_rows
        last = [*last, *batch.slice(max(0, batch.num_rows - limit)).to_pylist()][-limit:]
    for letter in last:
        click.echo(_as_json(letter, letters) if form == "json" else _as_text(letter, letters))
    if form == "text":
        rest = f" of {total:,}" if total > len(last) else ""
        click.echo(f"{len(last):,}{rest} dead letter{'' if len(last) == 1 and not rest else 's'}", err=True)


def _as_json(letter: dict[str, Any], letters: Letters) -> str:
    before = [{name: one[name] for name in ("time", "at", "code", "reason")} for one in letters.history(letter)]
    shown = {**letter, **({"before": before} if before else {})}
    text = json.dumps(shown, ensure_ascii=False, default=_iso)
    escaped = text if text.isprintable() else json.dumps(shown, default=_iso)  # nothing that could control a terminal
    return escaped.replace("\x7f", "\\u007f")


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _as_text(letter: dict[str, Any], letters: Letters) -> str:
    from etl.running.dead_letter_share import printable

    lines = [click.style(f"{_iso(letter['time'])}  {printable(letter['at'])}  {printable(letter['code'])}", bold=True)]
    lines += [
        f"  before: {_iso(one['time'])}  {printable(one['at'])}  {one['code']}: {printable(one['reason'] or '')}"
        for one in letters.history(letter)
    ]
    lines += [f"  {printable(letter['reason'] or '')}", f"  {printable(letter['event'] or '')}"]
    return "\n".join(lines)


command.add_command(export)
command.add_command(replay)
command.add_command(drop)
