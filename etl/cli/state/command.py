"""``etl state``: what stateful steps remember, while a run goes on or when it is stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from etl.cli.state.changes import add_pipeline, drop
from etl.cli.state.transfer import export, import_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from etl.running.stateful_steps import StepOfQuery

_FORMAT = click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="A table, or JSON lines.")


@click.group()
def command() -> None:
    """Show and change what windows and other steps remember.

    FILE is the pipeline file of the run, with the same --state, --set and --env-file. The state is that after the last
    micro-batch, also while the run goes on; only `drop` and `import` change it, while no run is alive. STEP is a name that
    `ls` shows, or a part of it, such as the stream or the type of the step, that no other step has.

    \b
    Examples:
      etl state ls ssh.yaml
      etl state show ssh.yaml --where "failures >= 4" --sort -failures
      etl state export ssh.yaml window open.parquet
      etl state top ssh.yaml window
      etl state drop ssh.yaml window --key source.ip=192.0.2.1
      etl state import ssh.yaml dedupe seen.parquet
    """


@command.command()
@add_pipeline
@_FORMAT
def ls(file: Path, form: str, state: str | None, overrides: tuple[str, ...], env_file: str | None) -> None:
    """List the steps that remember something, and how much it is.

    `oldest` and `newest` are the times of the first and the last pane that are not over: starts of open windows, where
    windows do not overlap; of steps with keys, times at which the watermark makes rows unnecessary, - for rows that are
    always needed.
    """
    from etl.cli.state.steps import load_steps

    _print_lines([_summary(step) for step in load_steps(file, state, overrides, env_file)], form)


@command.command()
@add_pipeline
@click.argument("step", required=False)
@click.option("--where", metavar="CONDITION", help="Only rows for which this expression is true.")
@click.option("--sort", metavar="FIELD", help="Sort by a field; with the prefix - the largest values are first.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Rows that are printed.")
@_FORMAT
def show(
    file: Path,
    step: str | None,
    where: str | None,
    sort: str | None,
    limit: int,
    form: str,
    state: str | None,
    overrides: tuple[str, ...],
    env_file: str | None,
) -> None:
    """Show open windows as they are now.

    Each has its groups and aggregates, whether or not it meets `having`. Without --sort windows are in the order of their fields.

    Of `dedupe` and `throttle` it shows hashes of keys, of which the keys cannot be read, with times and counts; events that
    wait are shown whole.
    """
    from etl.cli.state.rows import Selection, print_rows
    from etl.cli.state.steps import choose_step, contents, load_steps

    chosen = choose_step(load_steps(file, state, overrides, env_file), step)
    fields, batches = contents(chosen)
    rows, count = Selection(where, sort, limit).select(batches, fields)
    print_rows(rows, form)
    if count > len(rows):
        click.echo(f"{len(rows):,} of {count:,} rows; --limit shows more", err=True)


@command.command()
@add_pipeline
@click.argument("step", required=False)
@click.option("--by", default="bytes", show_default=True, metavar="FIELD", help="`bytes`, `rows`, or a field that `show` prints.")
@click.option("--parts", is_flag=True, help="Parts instead of keys.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Rows that are printed.")
@_FORMAT
def top(
    file: Path,
    step: str | None,
    by: str,
    parts: bool,
    limit: int,
    form: str,
    state: str | None,
    overrides: tuple[str, ...],
    env_file: str | None,
) -> None:
    """Show which keys have the largest state.

    `rows` and `bytes` are those that state files have of a key, in all windows together; a row is the partial result of a
    pane, or what is known of one event. With --by FIELD it shows the rows of `show` with the largest values.
    """
    from etl.cli.state.rows import Selection, print_rows
    from etl.cli.state.sizes import sizes_of_keys, sizes_of_parts
    from etl.cli.state.steps import choose_step, contents, load_steps, no_state

    chosen = choose_step(load_steps(file, state, overrides, env_file), step)
    found = chosen.read()
    if by not in ("bytes", "rows"):
        fields, batches = contents(chosen)
    elif found is None:
        click.echo(no_state(chosen), err=True)
        return
    else:
        sizes = sizes_of_parts(found[1]) if parts else sizes_of_keys(found[1], chosen.operator(found[1]))
        fields, batches = _with_fields(sizes)
    rows, _ = Selection(None, f"-{by}", limit, "--by").select(batches, fields)
    print_rows(rows, form)


@command.command()
@add_pipeline
@_FORMAT
def versions(file: Path, form: str, state: str | None, overrides: tuple[str, ...], env_file: str | None) -> None:
    """List the versions of the state that are kept, one after each of the last micro-batches.

    A run that was killed goes on with the last one that its sinks have the results of.
    """
    from etl.cli.state.steps import load_steps

    _print_lines([line for step in load_steps(file, state, overrides, env_file) for line in _versions(step)], form)


def _versions(step: StepOfQuery) -> Iterator[dict[str, Any]]:
    """A line for each version of a step's state, the last one first. Those that a run removes meanwhile are left out."""
    from etl.api import ComponentError
    from etl.state.manifest import Manifests

    manifests = Manifests(step.folder)
    for batch in reversed(manifests.versions()):
        with suppress(ComponentError):
            manifest, written = manifests.read(batch), manifests.written(batch)
            stage = manifest.stage(step.number)
            yield {
                "step": step.name,
                "micro_batch": batch,
                "written": _time(written),
                "rows": sum(file.rows for file in stage.files),
                "files": len(stage.files),
                "bytes": sum(file.bytes for file in stage.files),
                "event_time": _time(manifest.event_time),
                "watermark": _time(stage.watermark),
            }


def _with_fields(batches: Iterator[pa.RecordBatch]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The fields of batches, and these."""
    import pyarrow as pa

    found = list(batches)
    empty = pa.schema([("rows", pa.int64()), ("bytes", pa.int64())])
    return (found[0].schema if found else empty), iter(found)


# ── The list ──────────────────────────────────────────────────────────────────────────────────────


def _summary(step: StepOfQuery) -> dict[str, Any]:
    """A line of the list; times are None where there are none."""
    found = step.read()
    state = found[1] if found else None
    operator = step.operator(state)
    panes = state.open_panes(operator) if state else None
    return {
        "step": step.name,
        "query": step.query,
        "keys": [name for name in operator.keys if name in step.node.incoming.names],
        "rows": state.rows if state else 0,
        "files": len(state.files) if state else 0,
        "bytes": state.bytes if state else 0,
        "parts": len(state.parts) if state else 0,
        "event_time": _time(found[0].event_time) if found else None,
        "watermark": _time(state.watermark) if state else None,
        "oldest": _pane_time(panes.first) if panes else None,
        "newest": _pane_time(panes.last) if panes else None,
    }


def _pane_time(microseconds: int) -> str | None:
    """None for the pane of rows that are always needed."""
    from etl.state.keyed.time_to_live import UNLIMITED_PANE

    return None if microseconds >= UNLIMITED_PANE else _time(microseconds)


def _time(microseconds: int) -> str | None:
    """ISO 8601; None for the watermark before the first event and after the last one."""
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except OverflowError:
        return None


def _print_lines(lines: Sequence[dict[str, Any]], form: str) -> None:
    if form == "json":
        for line in lines:
            click.echo(json.dumps(line, ensure_ascii=False))
    elif lines:
        for text in _table([{name: _cell(value) for name, value in line.items()} for line in lines]):
            click.echo(text)


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case list():
            return ", ".join(value)
        case int():
            return f"{value:,}"
        case _:
            return str(value).replace(".000000Z", "Z")


def _table(lines: Sequence[dict[str, str]]) -> Iterator[str]:
    """Aligned columns."""
    names = list(lines[0])
    widths = {name: max(len(name), *(len(line[name]) for line in lines)) for name in names}
    align: dict[str, Callable[[str, int], str]] = dict.fromkeys(("micro_batch", "rows", "files", "bytes", "parts"), str.rjust)
    for line in [{name: name for name in names}, *lines]:
        yield "  ".join(align.get(name, str.ljust)(line[name], widths[name]) for name in names).rstrip()


for subcommand in (export, drop, import_rows):
    command.add_command(subcommand)
