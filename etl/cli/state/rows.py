"""Which rows of a state are shown, and how they are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import click
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import NO_BATCH, EtlError, Schema, Sink, Task, nearest
from etl.catalogue import installed
from etl.expressions import analyse, compile_expression
from etl.running.first_rows import first_rows, has_order


@dataclass(frozen=True)
class Selection:
    """The options ``--where``, ``--sort`` and ``--limit``."""

    where: str | None = None
    sort: str | None = None
    limit: int = 20
    sort_option: str = "--sort"
    """What messages call the option."""

    def select(self, batches: Iterable[pa.RecordBatch], fields: Schema) -> tuple[pa.Table, int]:
        """The first rows in the order, and how many fulfil the condition. Raises UsageError for a bad condition or field."""
        keys = sort_keys(self.sort, fields, self.sort_option)
        matching = rows_where(self.where, fields)
        return first_rows(map(matching, batches), fields, keys, self.limit)


def sort_keys(sort: str | None, fields: Schema, option: str = "--sort") -> list[tuple[str, str]]:
    """The order of rows: a field, descending with the prefix ``-``, then all fields from left to right. Null is last."""
    rest = [(field.name, "ascending") for field in fields if has_order(field.type)]
    if sort is None:
        return rest
    name = sort.removeprefix("-")
    if name not in fields.names:
        raise click.UsageError(f"{option}: there is no field {name!r}; {_nearest_field(name, fields)}")
    if not has_order(fields.field(name).type):
        raise click.UsageError(f"{option}: values of {name!r} have no order: {fields.field(name).type}")
    return [(name, "descending" if sort.startswith("-") else "ascending"), *(key for key in rest if key[0] != name)]


def rows_where(where: str | None, fields: Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Keeps the rows for which a condition is true. Raises UsageError for a bad one, EtlError where it cannot be computed."""
    if where is None:
        return lambda batch: batch
    analysis = analyse(where, fields)
    for finding in analysis.condition_findings_at("where"):
        if finding.severity == "error":
            raise click.UsageError(f"--where: {finding.message}{f'; {finding.hint}' if finding.hint else ''}")
    if analysis.spark_reason:
        raise click.UsageError(f"--where: only Spark computes {analysis.spark_reason}, and `etl state` runs without Spark")
    condition = compile_expression(where, fields)

    def matching(batch: pa.RecordBatch) -> pa.RecordBatch:
        mask, failed, reasons = condition(batch)
        if failed is not None and reasons is not None and failed.true_count:
            raise EtlError(f"--where cannot be computed for a row: {reasons.filter(failed)[0].as_py()}")
        return batch.filter(pc.fill_null(mask.cast(pa.bool_()), False))

    return matching


def print_rows(rows: pa.Table, form: str) -> None:
    """Print rows as the sink ``console`` does, which escapes what could control a terminal."""
    sink = installed().families["sink"]["console"].model_validate({"type": "console", "format": form})
    assert isinstance(sink, Sink)
    with TemporaryDirectory() as folder:
        writer = sink.open(Task(pipeline="", sink="console", split="state", folder=folder, schema=rows.schema))
        for batch in _batches(rows):
            writer.write(batch)
        staged, committer = writer.close(), sink.committer(folder)
        if staged is not None and committer is not None:
            committer.commit(NO_BATCH, [staged])


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """One batch at least, whose fields are a table's head."""
    if len(rows):
        yield from rows.to_batches()
    else:
        yield pa.RecordBatch.from_pylist([], schema=rows.schema)


def _nearest_field(name: str, fields: Schema) -> str:
    return nearest(name, fields.names) or f"fields are {', '.join(fields.names)}"
