"""The dead letters that a command of ``etl dead`` is about, and the options that choose them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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


@dataclass(frozen=True)
class Letters:
    """The open letters of a pipeline that a command is about."""

    pipeline: Pipeline
    state: StateFolder
    files: Sequence[LetterFile]
    choose: Choose

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


def add_letters(command: F) -> F:
    """The argument FILE, and the options that choose letters; the command gets them as `Letters`."""
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
        click.option("--state", metavar="DIR", help="The state folder of the run; default as for etl run."),
    ]
    for option in reversed(options):
        command = option(command)
    return click.argument("file", type=PipelineFile(exists=True, dir_okay=False))(add_config_options(command))


def load_letters(
    file: Path, state: str | None, overrides: Sequence[str], env_file: str | None, where: str | None, **chosen: str | None
) -> Letters:
    """The letters that the options of a command choose. Raises EtlError without a state folder, or letters that are elsewhere."""
    from etl.cli.state.rows import rows_where
    from etl.config.loader import load
    from etl.running.dead_letters.letter_files import LETTERS, letter_files
    from etl.running.dead_letters.letter_filter import LetterFilter
    from etl.running.state_folders import dead_letters, state_folder

    pipeline = load(file, load_environment(env_file), overrides)
    folder = state_folder(pipeline, state)
    if not folder.root.is_dir():
        raise EtlError(
            f"there is no state in {folder.root}: pipeline {pipeline.name!r} has not run with this folder; "
            "choose the folder of a run with --state"
        )
    matching = rows_where(where, LETTERS)
    try:
        chosen_letters = LetterFilter(**chosen)
    except EtlError as error:
        raise click.UsageError(f"--{error}") from None

    def choose(batch: pa.RecordBatch) -> pa.RecordBatch:
        return matching(chosen_letters.choose(batch))

    return Letters(pipeline, folder, letter_files(dead_letters(pipeline, folder)), choose)
