"""``etl dead export``, ``replay`` and ``drop``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import EtlError
from etl.cli.dead.letters import Letters, add_letters, load_letters
from etl.running.messages import Message

if TYPE_CHECKING:
    from etl.cli.run.progress import Progress
    from etl.running.dead_letters.replay_run import Replay
    from etl.running.service import RunService
    from etl.running.shared_session import SharedSession

STOP_FIRST = "stop that run, and start it again afterwards"

_LINES = (".log", ".txt")


@click.command()
@add_letters
@click.argument("target", metavar="OUT", type=click.Path(dir_okay=False, path_type=Path))
def export(target: Path, **options: Any) -> None:
    """Write letters to a file; they stay what they are.

    OUT ends with .jsonl or .parquet for letters with all of their fields, or with .log or .txt for the text of their events
    alone, one a line, such as for `etl grok` and `etl infer`.
    """
    write = _WRITERS.get(target.suffix)
    if write is None:
        raise click.UsageError(f"{target}: a file ends with {', '.join(_WRITERS)}, not with {target.suffix!r}")
    letters = load_letters(**options)
    fresh = target.with_name(f"{target.name}.new")
    try:
        rows, left_out = write(fresh, letters.batches())
        os.replace(fresh, target)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
    text = f"{rows:,} dead letter{'' if rows == 1 else 's'} in {target}"
    if left_out:
        text += f"; {left_out:,} are left out, whose events have several lines: a file that ends with .jsonl has them"
    click.echo(text, err=True)


def _write_json(path: Path, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    import polars as pl

    from etl.columns.json.values import to_json_types

    rows = 0
    with path.open("wb") as out:
        for batch in batches:
            columns = {name: to_json_types(batch.column(name)) for name in batch.schema.names}
            frame = pl.from_arrow(pa.table(columns))
            assert isinstance(frame, pl.DataFrame)
            frame.write_ndjson(out)
            rows += batch.num_rows
    return rows, 0


def _write_parquet(path: Path, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    from pyarrow.parquet import ParquetWriter

    from etl.running.dead_letters.letter_files import LETTERS

    rows = 0
    with ParquetWriter(path, LETTERS) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows, 0


def _write_lines(path: Path, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    rows = left_out = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for batch in batches:
            events = pc.fill_null(batch.column("event"), "")
            single = events.filter(pc.invert(pc.match_substring_regex(events, r"[\r\n]")))
            out.writelines(f"{event}\n" for event in single.to_pylist())
            rows += len(single)
            left_out += len(events) - len(single)
    return rows, left_out


_WRITERS = {".jsonl": _write_json, ".parquet": _write_parquet, **dict.fromkeys(_LINES, _write_lines)}


@click.command()
@add_letters
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(yes: bool, **options: Any) -> None:
    """Settle letters without a replay. No run may be alive.

    The letters stay in their file until all of its letters are settled; then the file of the state folder is removed. A file that
    the option `dead_letters` names is never changed.
    """
    from etl.cli.state.changes import ask
    from etl.running.dead_letters.settled_letters import lines_by_file
    from etl.spark.state.folder import lock_state

    letters = load_letters(**options)
    with lock_state(letters.state, STOP_FIRST):
        lines = lines_by_file(letters.batches())
        rows = sum(map(len, lines.values()))
        if not rows:
            click.echo("no dead letters are chosen", err=True)
            return
        if not yes:
            ask(f"Drop {rows:,} dead letter{'' if rows == 1 else 's'}? No replay will get them")
        letters.settled.drop(letters.files, lines)
        click.echo(f"dropped {rows:,} dead letter{'' if rows == 1 else 's'}", err=True)
        _remove_settled(letters)


def _remove_settled(letters: Letters) -> None:
    """Remove the file of the state folder when all of its letters are settled, and copies of them; its sink begins a new one."""
    from etl.running.dead_letters.replay import remove_copies

    file = letters.state.dead_letters
    is_own = [one for one in letters.files if one.path == file]
    if is_own and not any(batch.num_rows for batch in letters.settled.open(is_own[0])):
        file.unlink()
        remove_copies(letters.state)
        click.echo(f"removed {file}: all of its letters are settled", err=True)


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
