"""``etl state export`` and ``etl state import``: what a step remembers as a file, and into another state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from etl.cli.config_options import add_force, check_new_file
from etl.cli.state.changes import add_pipeline

if TYPE_CHECKING:
    import pyarrow as pa

    from etl.running.stateful_steps import StepOfQuery
    from etl.state.manifest import Manifests, StageState


@click.command()
@add_pipeline
@click.argument("step")
@click.argument("target", metavar="OUT", type=click.Path(dir_okay=False, path_type=Path))
@add_force
def export(file: Path, step: str, target: Path, force: bool, **options: Any) -> None:
    """Write what a step remembers as Parquet, or so that it can be imported.

    OUT ends with .parquet or .state. The former has all rows that `show` can show, with the same fields. The latter has all that
    the step remembers, with its watermark, for `etl state import`; it has the secret seed of the state's hashes, and only you
    can read it.
    """
    from etl.cli.state.steps import choose_step, contents, load_steps
    from etl.state.exported_rows import SUFFIX

    if target.suffix not in (".parquet", SUFFIX):
        raise click.UsageError(f"{target}: a file ends with .parquet or {SUFFIX}, not with {target.suffix!r}")
    check_new_file(target, force)
    chosen = choose_step(load_steps(file, options["state"], options["overrides"], options["env_file"]), step)
    rows = _export_state(target, chosen) if target.suffix == SUFFIX else _write_parquet(target, *contents(chosen))
    click.echo(f"{rows:,} row{'' if rows == 1 else 's'} in {target}", err=True)


def _export_state(target: Path, step: StepOfQuery) -> int:
    """Write a file for `etl state import`. Raises EtlError if the step remembers nothing."""
    from etl.api import EtlError
    from etl.cli.state.steps import no_state
    from etl.state.exported_rows import Origin, export_rows
    from etl.state.manifest import Manifests

    found = step.read()
    if found is None:
        raise EtlError(no_state(step))
    query, state = found
    manifests = Manifests(step.folder)
    stage = replace(manifests.read(query.batch).stage(step.number), files=())
    rows = export_rows(target, state, step.operator(state), Origin(step.remembered, manifests.seed, stage))
    if not rows:
        raise EtlError(f"{step.name} remembers nothing that is not over: there is nothing to export")
    return rows


def _write_parquet(target: Path, fields: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Write rows to a file that appears when it is complete; returns their number."""
    from pyarrow.parquet import ParquetWriter

    from etl.api import nest, nested_schema

    fresh, rows = target.with_name(f"{target.name}.new"), 0
    try:
        with ParquetWriter(fresh, nested_schema(fields)) as writer:
            for batch in batches:
                writer.write_batch(nest(batch))
                rows += batch.num_rows
        os.replace(fresh, target)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
    return rows


@click.command("import")
@add_pipeline
@click.argument("step")
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_rows(file: Path, step: str, source: Path, state: str | None, overrides: tuple[str, ...], env_file: str | None) -> None:
    """Let a step remember events of a time before the run, or what another state remembers.

    FILE is Parquet, CSV or JSON lines, by its ending, with the fields of events that reach the step: those that it
    needs, for `dedupe` its keys and the time. The step remembers them as if they had come in the run, but gives no results
    for them yet: windows that are over give theirs with the first events of the run. Without a time field the time is now.

    Or it ends with .state and is of `etl state export`, of a step with the same options that determine its state. The step
    goes on with its rows and its watermark, as the other one would; it must not remember anything before.

    No run may be alive; the pipeline need not have run before.
    """
    from etl.api import EtlError
    from etl.cli.state.steps import choose_step, prepare_steps
    from etl.spark.state.checkpoint import committed_batch
    from etl.spark.state.folder import lock_state
    from etl.state.edits import unused_name, with_stage
    from etl.state.exported_rows import SUFFIX
    from etl.state.manifest import Manifests

    chosen = choose_step(prepare_steps(file, state, overrides, env_file), step)
    if chosen.bounded:
        raise EtlError(f"{chosen.name} remembers nothing: its sources end, and are read in one micro-batch")
    with lock_state(chosen.state):
        manifests, batch = Manifests(chosen.folder), committed_batch(chosen.state, chosen.query)
        manifest = manifests.read(batch)
        name = unused_name(manifests.folder, f"rows-{batch:012d}-{chosen.number}-imported")
        add = _with_exported_rows if source.suffix == SUFFIX else _with_events
        stage, summary = add(source, chosen, manifests, manifest.stage(chosen.number), name)
        manifests.change(batch, with_stage(manifest, chosen.number, stage))
        click.echo(f"{chosen.name} remembers {summary}", err=True)


def _with_events(source: Path, step: StepOfQuery, manifests: Manifests, stage: StageState, name: str) -> tuple[StageState, str]:
    """The state of a step with events of a file, and what has been added."""
    from etl.cli.state.event_files import read_events
    from etl.state.edits import with_events

    _ = manifests.seed  # chosen before there is a manifest
    found = read_events(source, step.step, step.node.incoming)
    files, late = with_events(manifests, stage, step.step.operator(found.fields), name, found)
    return replace(stage, files=files), f"{found.rows - late:,} events of {source}; {late:,} were too late"


def _with_exported_rows(
    source: Path, step: StepOfQuery, manifests: Manifests, stage: StageState, name: str
) -> tuple[StageState, str]:
    """The same with rows of `etl state export`. Raises EtlError if they are not of such a step, or it remembers something."""
    from etl.api import EtlError
    from etl.spark.state.continued_steps import differences
    from etl.state.exported_rows import ExportedRows

    exported = ExportedRows(source)
    unlike = list(differences(dict(exported.origin.step), step.remembered))
    if unlike:
        raise EtlError(f"{source} does not fit {step.name}: " + "; ".join(unlike))
    found = step.read()
    if found is not None and found[1].open_panes(step.operator(found[1])):
        raise EtlError(
            f"{step.name} remembers {found[1].rows:,} rows already, which cannot be united with those of {source}: "
            f"drop them first, with etl state drop"
        )
    added, rows, over = exported.add_to(manifests, stage, step.operator(), name)
    return added, f"{rows:,} rows of {source}; {over:,} were too late"
