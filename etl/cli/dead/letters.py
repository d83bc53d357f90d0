"""The dead letters that a command of ``etl dead`` is about, and the options that choose them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import pyarrow as pa

from etl.api import EtlError
from etl.cli.config_options import F, PipelineFile, add_config_options, load_environment

if TYPE_CHECKING:
    from etl.config.model import Pipeline
    from etl.running.dead_letters.letter_files import LetterFile
    from etl.running.dead_letters.settled_letters import SettledLetters
    from etl.spark.state.folder import StateFolder

Choose = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Keeps the letters that the options of a command choose."""

STOP_FIRST = "stop that run, and start it again afterwards"
"""The hint when a run of the pipeline is alive."""


class Letters(Protocol):
    """The open letters that a command is about: those of a run on this machine, or of a pipeline of a server."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The letters, with the fields of `LETTERS`."""

    def groups(self) -> list[dict[str, Any]]:
        """The letters by where and why they were rejected, the largest group first: ``events``, ``at``, ``code``, ``reasons``,
        ``reason``, ``last``, ``example``."""

    def count_settled(self) -> int:
        """How many more are settled, where that is known."""

    def history(self, letter: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """The earlier rejections of a letter."""

    def replay(self, master: str | None) -> None:
        """Replay them, on this Spark master if it is a run on this machine. Raises EtlError if one part fails."""

    def drop(self, confirm: Callable[[int], None]) -> None:
        """Settle them, after ``confirm`` was called with their number."""


@dataclass(frozen=True)
class LocalLetters:
    """The open letters of a pipeline file's runs."""

    pipeline: Pipeline
    state: StateFolder
    files: Sequence[LetterFile]
    choose: Choose
    shared: Any = None
    """The session of a test; None to start one for a replay."""

    @property
    def settled(self) -> SettledLetters:
        """The record of settled letters, as it is now."""
        from etl.running.dead_letters.settled_letters import SettledLetters

        return SettledLetters.load(self.state.root / "dead")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The letters."""
        settled = self.settled
        for file in self.files:
            yield from map(self.choose, settled.open(file))

    def groups(self) -> list[dict[str, Any]]:
        """The letters by where and why they were rejected."""
        from etl.running.dead_letters.replay import count_open_letters

        if letters := count_open_letters(self.state):
            count = f"{letters:,} letter{'s' if letters > 1 else ''}"
            text = f"a replay of {count} did not end; they are counted as settled: `etl dead replay` finishes it"
            click.echo(text, err=True)
        return group_rows(self.batches())

    def count_settled(self) -> int:
        """How many of the files are settled."""
        settled = self.settled
        return sum(settled.count(file) for file in self.files)

    def history(self, letter: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """The earlier rejections of a letter, of the copy that its replay has made."""
        from etl.running.dead_letters.replay import history

        return history(self.state, letter["source"] or "", letter["offset"])

    def replay(self, master: str | None) -> None:
        """Replay them in a run of this process."""
        from etl.cli.dead.local_replay import run_replay

        run_replay(self.pipeline, self.state, self.choose, master or "local[*]", self.shared)

    def drop(self, confirm: Callable[[int], None]) -> None:
        """Settle them under the lock of the state folder."""
        from etl.running.dead_letters.letter_drop import drop_letters
        from etl.spark.state.folder import lock_state

        with lock_state(self.state, STOP_FIRST):
            click.echo(drop_letters(self.pipeline, self.state, self.choose, confirm), err=True)


def group_rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Groups of letters, as `Letters.groups` gives them."""
    from etl.running.dead_letters.letter_groups import group_letters

    return [
        {
            "events": group.events,
            "at": group.at,
            "code": group.code,
            "reasons": len(group.reasons),
            "reason": group.reason,
            "last": group.last,
            "example": group.example,
        }
        for group in group_letters(batches)
    ]


def add_letters(command: F) -> F:
    """The argument FILE, and the options that choose letters; the command gives all of them to `load_letters`."""
    options = [
        click.option(
            "--at",
            metavar="TEXT",
            help="Only those of steps, sinks and sources whose name has this text; a whole name is this one alone.",
        ),
        click.option("--code", metavar="CODE", help="Only those with this code, such as grok-failed."),
        click.option("--reason", metavar="TEXT", help="Only those whose reason has this text."),
        click.option("--text", metavar="TEXT", help="Only those whose event has this text."),
        click.option("--since", metavar="TIME", help="Only those of this time (ISO 8601, UTC) and later."),
        click.option("--until", metavar="TIME", help="Only those before this time."),
        click.option("--where", metavar="CONDITION", help="Only those for which this expression over their fields is true."),
        click.option("--state", metavar="DIR", help="The state folder of the run, or of the server; default as for etl run."),
        click.option("--server", metavar="URL", help="The server of pipeline NAME; its token: $ETL_TOKEN."),
    ]
    for option in reversed(options):
        command = option(command)
    return click.argument("file", metavar="FILE|NAME")(add_config_options(command))


def load_letters(
    file: str,
    server: str | None,
    state: str | None,
    overrides: Sequence[str],
    env_file: str | None,
    where: str | None,
    shared: Any = None,
    **chosen: str | None,
) -> Letters:
    """The letters that the options of a command choose. Raises EtlError without a state folder, or letters that are elsewhere."""
    from etl.cli.dead.server_letters import ServerLetters, find_server_of
    from etl.cli.state.rows import rows_where
    from etl.running.dead_letters.letter_files import LETTERS
    from etl.running.dead_letters.letter_filter import LetterFilter

    matching = rows_where(where, LETTERS)
    try:
        letters = LetterFilter(**chosen)
    except EtlError as error:
        raise click.UsageError(f"--{error}") from None
    connection = find_server_of(file, server, state)
    if connection is None:
        return _local_letters(file, state, overrides, env_file, lambda batch: matching(letters.choose(batch)), shared)
    if overrides or env_file:
        raise click.UsageError(f"--set and --env-file go with a file, and {file} is a pipeline of {connection.url}")
    return ServerLetters(connection, file, letters, matching if where else None)


def _local_letters(
    file: str, state: str | None, overrides: Sequence[str], env_file: str | None, choose: Choose, shared: Any
) -> LocalLetters:
    from etl.config.loader import load
    from etl.running.dead_letters.letter_files import letter_files
    from etl.running.state_folders import dead_letters, state_folder

    pipeline = load(_pipeline_path(file), load_environment(env_file), overrides)
    folder = state_folder(pipeline, state)
    if not folder.root.is_dir():
        raise EtlError(
            f"there is no state in {folder.root}: pipeline {pipeline.name!r} has not run with this folder; "
            "choose the folder of a run with --state, or the server of a pipeline with --server"
        )
    return LocalLetters(pipeline, folder, letter_files(dead_letters(pipeline, folder)), choose, shared)


def _pipeline_path(file: str) -> Path:
    context = click.get_current_context()
    argument = next(one for one in context.command.params if one.name == "file")
    path: Path = PipelineFile(exists=True, dir_okay=False).convert(file, argument, context)
    return path
