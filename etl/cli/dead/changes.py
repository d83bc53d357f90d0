"""``etl dead export``, ``replay`` and ``drop``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import EtlError
from etl.cli.dead.letters import add_letters, load_letters
from etl.running.messages import Message

if TYPE_CHECKING:
    from etl.cli.run.progress import Progress
    from etl.running.dead_letters.replay_run import Replay
    from etl.running.service import RunService
    from etl.running.shared_session import SharedSession

STOP_FIRST = "stop that run, and start it again afterwards"


@click.command()
@add_letters
@click.argument("target", metavar="OUT", type=click.Path(dir_okay=False, path_type=Path))
def export(target: Path, **options: Any) -> None:
    """Write letters to a file; they stay what they are.

    OUT ends with .jsonl or .parquet for letters with all of their fields, or with .log or .txt for the text of their events
    alone, one a line, such as for `etl grok` and `etl infer`.
    """
    from etl.running.dead_letters.letter_export import EXPORT_FORMATS

    form = EXPORT_FORMATS.get(target.suffix.removeprefix("."))
    if form is None:
        accepted = ", ".join(f".{name}" for name in EXPORT_FORMATS)
        raise click.UsageError(f"{target}: a file ends with {accepted}, not with {target.suffix!r}")
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
    """Settle letters without a replay. No run may be alive.

    The letters stay in their file until all of its letters are settled; then the file of the state folder is removed. A file that
    the option `dead_letters` names is never changed.
    """
    from etl.cli.state.changes import ask
    from etl.running.dead_letters.letter_drop import drop_letters
    from etl.spark.state.folder import lock_state

    def confirm(rows: int) -> None:
        if not yes:
            ask(f"Drop {rows:,} dead letter{'' if rows == 1 else 's'}? No replay will get them")

    letters = load_letters(**options)
    with lock_state(letters.state, STOP_FIRST):
        click.echo(drop_letters(letters.pipeline, letters.state, letters.choose, confirm), err=True)


@click.command()
@add_letters
@click.option("--master", default="local[*]", show_default=True, metavar="M", help="Spark's master: local[n] or a cluster's.")
@click.pass_obj
def replay(shared: SharedSession | None, /, master: str, **options: Any) -> None:
    """Send letters through the pipeline as it is now, once each, from the step, sink or source on that rejected them.

    A letter is settled when its replay begins. What fails again is a new dead letter, which `show` prints with its history. After
    a kill the next replay first finishes this one: each letter is delivered once where the sinks deliver exactly once. Steps that
    keep state, such as windows, do not get the events: their results are given, or they would count these by themselves. No run
    of the pipeline may be alive.
    """
    from etl.running.dead_letters.replay_run import Replay

    letters = load_letters(**options)
    begun = Replay.begin(letters.pipeline, letters.state, letters.choose, STOP_FIRST)
    for note in begun.notes():
        click.echo(note, err=True)
    if begun.portions:
        _run(begun, master, shared)


def _run(begun: Replay, master: str, shared: SharedSession | None) -> None:
    """Run the portions one after the other. Raises EtlError for one that fails or is stopped; the next replay finishes it."""
    from etl.cli.run.command import stop_on_signals
    from etl.cli.run.progress import Progress
    from etl.running.shared_session import SharedSession

    progress = Progress("text", quiet=False, live=True)
    start = lambda: progress.say("starting", f"starting Spark ({master})")  # noqa: E731

    def work(service: RunService) -> None:
        with stop_on_signals(service, progress):
            service.work(lambda message: _report(progress, message), progress.show)

    with ExitStack() as stack:
        stack.callback(progress.close)
        session = shared or SharedSession("sluice", master, begun.state.spark_log, on_start=start)
        if shared is None:
            stack.callback(session.stop)
        if not begun.run(session, work, lambda message: progress.say(message.event, message.text)):
            raise EtlError("stopped: the next `etl dead replay` finishes this replay")


def _report(progress: Progress, message: Message) -> None:
    if message.event != "running":  # a replay has its own message
        progress.report(message)
