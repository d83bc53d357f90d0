"""``etl state drop``: takes away what a step remembers while no run is alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from etl.cli.config_options import F, PipelineFile, add_config_options, ask

if TYPE_CHECKING:
    import pyarrow as pa

    from etl.running.stateful_steps import StepOfQuery


def add_pipeline(command: F) -> F:
    """The argument FILE, and the options that choose the same state as those of `etl run`."""
    chosen = click.option("--state", metavar="DIR", help="The state folder of the run; default as for etl run.")
    return click.argument("file", type=PipelineFile(exists=True, dir_okay=False))(chosen(add_config_options(command)))


@click.command()
@add_pipeline
@click.argument("step")
@click.option(
    "--key", multiple=True, metavar="FIELD=VALUE", help="Only what is remembered of a key; once for each of its fields."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(
    file: Path,
    step: str,
    key: tuple[str, ...],
    yes: bool,
    state: str | None,
    overrides: tuple[str, ...],
    env_file: str | None,
) -> None:
    """Forget all that a step remembers, or all of one key.

    The key of a `join` has the names of the left side's fields, and what it remembers of both sides is forgotten.
    Windows of the key that are open begin again, and its next event passes `dedupe`. A FIELD without =VALUE is null. The
    watermark stays: what was late before is late now. No run may be alive.
    """
    from etl.cli.state.steps import choose_step, load_steps
    from etl.spark.state.checkpoint import committed_batch
    from etl.spark.state.folder import lock_state
    from etl.state.edits import rows_of, with_stage, without_key
    from etl.state.manifest import Manifests

    chosen = choose_step(load_steps(file, state, overrides, env_file), step)
    with lock_state(chosen.state):
        manifests, batch = Manifests(chosen.folder), committed_batch(chosen.state, chosen.query)
        manifest = manifests.read(batch)
        stage = manifest.stage(chosen.number)
        files = without_key(manifests, stage, chosen.operator(), _key(chosen, key)) if key else ()
        rows = rows_of(stage.files) - rows_of(files)
        if not rows:
            click.echo(f"{chosen.name} remembers nothing{' of this key' if key else ''}", err=True)
            return
        count = f"{rows:,} row{'' if rows == 1 else 's'} of {chosen.name}"
        if not yes:
            ask(f"Drop {count}? They cannot be restored", "nothing is dropped")
        manifests.change(batch, with_stage(manifest, chosen.number, replace(stage, files=files)))
        click.echo(f"dropped {count}", err=True)


def _key(step: StepOfQuery, given: Sequence[str]) -> pa.Table:
    """The key as a table of one row. Raises UsageError where it is none of the step."""
    import pyarrow as pa

    from etl.contract.state import NamesKeys

    operator = step.operator()
    fields = operator.key_fields if isinstance(operator, NamesKeys) else step.node.incoming
    keys = fields.names if isinstance(operator, NamesKeys) else operator.keys
    hidden = [name for name in keys if name not in fields.names]
    if hidden:
        raise click.UsageError(f"--key: {step.name} remembers hashes of keys with times, which are not found by the key alone")
    values = {name: value if separator else None for name, separator, value in (text.partition("=") for text in given)}
    if set(values) != set(keys):
        raise click.UsageError(f"--key: the key of {step.name} has the fields {', '.join(keys) or 'none'}; give each once")
    try:
        columns = [pa.array([values[name]], pa.string()).cast(fields.field(name).type) for name in keys]
    except pa.ArrowException as error:
        raise click.UsageError(f"--key: {error}") from error
    return pa.table(columns, names=operator.keys)
