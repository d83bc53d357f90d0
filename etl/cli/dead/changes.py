"""``etl dead export``, ``replay`` and ``drop``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from etl.cli.config_options import add_force, ask, check_new_file
from etl.cli.dead.letters import add_letters, load_letters

if TYPE_CHECKING:
    from etl.running.shared_session import SharedSession


@click.command()
@add_letters
@click.argument("target", metavar="OUT", type=click.Path(dir_okay=False, path_type=Path))
@add_force
def export(target: Path, force: bool, **options: Any) -> None:
    """Write letters to a file; they stay what they are.

    OUT ends with .jsonl or .parquet for letters with all of their fields, or with .log or .txt for the text of their events
    alone, one a line, such as for `etl grok` and `etl infer`.
    """
    from etl.running.dead_letters.letter_export import EXPORT_FORMATS

    form = EXPORT_FORMATS.get(target.suffix.removeprefix("."))
    if form is None:
        accepted = ", ".join(f".{name}" for name in EXPORT_FORMATS)
        raise click.UsageError(f"{target}: a file ends with {accepted}, not with {target.suffix!r}")
    check_new_file(target, force)
    letters = load_letters(**options)
    counted = _CountedLetters(letters.batches(), form.has_lines_only)
    fresh = target.with_name(f"{target.name}.new")
    try:
        with fresh.open("wb") as out:
            out.writelines(form.encode(counted))
        os.replace(fresh, target)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
    text = f"{counted.rows:,} dead letter{'' if counted.rows == 1 else 's'} in {target}"
    if counted.left_out:
        text += f"; {counted.left_out:,} are left out, whose events have several lines: a file that ends with .jsonl has them"
    click.echo(text, err=True)


@dataclass
class _CountedLetters:
    """Letters, counted as they pass."""

    batches: Iterator[pa.RecordBatch]
    lines_only: bool
    rows: int = 0
    left_out: int = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        from etl.running.dead_letters.letter_export import has_line_ends

        for batch in self.batches:
            left_out = pc.sum(has_line_ends(batch)).as_py() or 0 if self.lines_only else 0
            self.rows += batch.num_rows - left_out
            self.left_out += left_out
            yield batch


@click.command()
@add_letters
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(yes: bool, **options: Any) -> None:
    """Settle letters without a replay.

    No run of FILE may be alive. A server stops NAME after its micro-batch, and starts it again afterwards.

    The letters stay in their file until all of its letters are settled; then the file of the state folder is removed. A file that
    the option `dead_letters` names is never changed.
    """

    def confirm(rows: int) -> None:
        if not yes:
            ask(f"Drop {rows:,} dead letter{'' if rows == 1 else 's'}? No replay will get them", "nothing is dropped")

    load_letters(**options).drop(confirm)


@click.command()
@add_letters
@click.option("--master", metavar="M", help="Spark's master: local[n] or a cluster's; default local[*].")
@click.pass_obj
def replay(shared: SharedSession | None, /, master: str | None, **options: Any) -> None:
    """Send letters through the pipeline as it is now, once each, from the step, sink or source on that rejected them.

    A letter is settled when its replay begins. What fails again is a new dead letter, which `show` prints with its history. After
    a kill the next replay first finishes this one: each letter is delivered once where the sinks deliver exactly once. Steps that
    keep state, such as windows, do not get the events: their results are given, or they would count these by themselves. No run
    of FILE may be alive; a server stops NAME after its micro-batch and starts it again.
    """
    load_letters(shared=shared, **options).replay(master)
