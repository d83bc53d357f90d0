"""Events in a file of Parquet, CSV or JSON lines, for a stateful step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow as pa

from etl.api import OFFSET, EtlError, ReadableState, Schema, StatefulStep, flat_schema, flatten, format_type

_ROWS_AT_ONCE = 1 << 16

_FIRST_OFFSET = -(1 << 62)
"""Imported events come before those of a run at the same time."""

_EXPORTED = ". It has what etl state show prints; an export to a file that ends with .state can be imported"


@dataclass
class EventFile:
    """The events of a file as they reach a step in a run."""

    path: Path
    fields: Schema
    """The fields that reach the step in a run, with the types of the file where the run alone knows them."""
    time: str
    rows: int = 0
    """Read so far."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Events as a run has them. Raises EtlError for values that do not fit."""
        for batch in map(flatten, _batches(self.path)):
            yield self._fit(batch)
            self.rows += batch.num_rows

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {field.name: self._column(batch, field) for field in self.fields if field.name in batch.schema.names}
        if self.time not in columns:
            columns[self.time] = pa.array([time.time_ns() // 1000] * batch.num_rows).cast(pa.timestamp("us", "UTC"))
        if columns[self.time].null_count:
            raise EtlError(f"{self.path}: {columns[self.time].null_count:,} events have no {self.time!r}, which is their time")
        first = _FIRST_OFFSET + self.rows
        return pa.record_batch({**columns, OFFSET: pa.array(range(first, first + batch.num_rows), pa.int64())})

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        column = batch.column(field.name)
        if column.type == field.type or pa.types.is_null(field.type):
            return column
        try:
            return column.cast(field.type)
        except pa.ArrowException as error:
            value = next(one for one in column if not _fits(one, field.type))
            such = ", such as 2026-11-20T05:55:00Z" if pa.types.is_timestamp(field.type) else ""
            found = f"{value.as_py()!r} in field {field.name!r}"
            raise EtlError(f"{self.path}: {found} is not a {format_type(field.type)}{such}") from error


def _fits(value: pa.Scalar, type_: pa.DataType) -> bool:
    try:
        pa.array([value]).cast(type_)
    except pa.ArrowException:
        return False
    return True


def read_events(path: Path, step: StatefulStep, incoming: Schema) -> EventFile:
    """The events of a file for a step. Raises EtlError if fields are missing that it needs."""
    try:
        first = next(_batches(path), None)
    except (pa.ArrowException, OSError) as error:
        raise EtlError(f"{path} cannot be read: {error}") from error
    found = flat_schema(first.schema) if first is not None else pa.schema([])
    fields = [_with_type(field, found) for field in incoming if field.name != OFFSET]
    time_field = (step.event_time() or ("",))[0]
    keys = {name for name in step.operator(incoming).keys if name in incoming.names}
    needed = (step.needs(incoming) or frozenset()) | keys | ({time_field} if time_field in incoming.names else set())
    missing = sorted(needed - set(found.names))
    if missing and first is not None:
        there = ", ".join(found.names) or "none"
        lacks = f"{path} lacks {', '.join(map(repr, missing))}, which the step needs; its fields are {there}"
        raise EtlError(lacks + (_EXPORTED if _is_shown(step, incoming, found) else ""))
    return EventFile(path, pa.schema(fields), time_field)


def _is_shown(step: StatefulStep, incoming: Schema, found: Schema) -> bool:
    """Whether the fields are those of `etl state show`."""
    operator = step.operator(incoming)
    return isinstance(operator, ReadableState) and set(operator.state_fields.names) == set(found.names)


def _with_type(field: pa.Field, found: Schema) -> pa.Field:
    known = field.name in found.names and pa.types.is_null(field.type)
    return found.field(field.name) if known else field


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    match path.suffix:
        case ".parquet":
            from pyarrow.parquet import ParquetFile

            yield from ParquetFile(path).iter_batches(_ROWS_AT_ONCE)
        case ".csv":
            yield from _csv_batches(path)
        case ".json" | ".jsonl" | ".ndjson":
            from pyarrow.json import open_json

            yield from open_json(path)
        case other:
            raise click.UsageError(f"{path}: a file ends with .parquet, .csv, .json, .jsonl or .ndjson, not with {other!r}")


def _csv_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """All values as texts; those that are empty are null."""
    from pyarrow.csv import ConvertOptions, open_csv

    with open_csv(path) as head:
        names = head.schema.names
    texts = ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""])
    yield from open_csv(path, convert_options=texts)
