"""The dead letters that a command of ``etl dead`` is about, and the options that choose them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import EtlError
from etl.cli.config_options import F, PipelineFile, add_config_options, load_environment

if TYPE_CHECKING:
    from etl.config.model import Pipeline
    from etl.running.dead_letters.letter_files import LetterFile
    from etl.running.dead_letters.settled_letters import SettledLetters
    from etl.spark.state.folder import StateFolder

Choose = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Keeps the letters that the options of a command choose."""

Mask = Callable[[pa.RecordBatch], pa.Array]
"""Whether each letter of a batch is chosen."""


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
        click.option("--at", metavar="TEXT", help="Only those of steps, sinks and sources whose name has this text."),
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
    from etl.running.state_folders import dead_letters, state_folder

    pipeline = load(file, load_environment(env_file), overrides)
    folder = state_folder(pipeline, state)
    if not folder.root.is_dir():
        raise EtlError(
            f"there is no state in {folder.root}: pipeline {pipeline.name!r} has not run with this folder; "
            "choose the folder of a run with --state"
        )
    matching = rows_where(where, LETTERS)
    masks = list(_masks(**chosen))

    def choose(batch: pa.RecordBatch) -> pa.RecordBatch:
        for mask in masks:
            batch = batch.filter(pc.fill_null(mask(batch), False))
        return matching(batch)

    return Letters(pipeline, folder, letter_files(dead_letters(pipeline, folder)), choose)


def _masks(
    at: str | None, code: str | None, reason: str | None, text: str | None, since: str | None, until: str | None
) -> Iterator[Mask]:
    """A condition for each option that is given."""
    for field, part in (("at", at), ("reason", reason), ("event", text)):
        if part is not None:
            yield partial(_has_text, field, part)
    if code is not None:
        yield lambda batch: pc.equal(batch.column("code"), code)
    for name, limit, compare in (("--since", since, pc.greater_equal), ("--until", until, pc.less)):
        if limit is not None:
            yield partial(_compare_time, compare, pa.scalar(_time(name, limit), pa.timestamp("us", "UTC")))


def _has_text(field: str, text: str, batch: pa.RecordBatch) -> pa.Array:
    return pc.match_substring(batch.column(field), text)


def _compare_time(compare: Callable[[pa.Array, pa.Scalar], pa.Array], limit: pa.Scalar, batch: pa.RecordBatch) -> pa.Array:
    return compare(batch.column("time"), limit)


def _time(option: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{option}: {text!r} is not a time such as 2026-01-31 or 2026-01-31T10:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
