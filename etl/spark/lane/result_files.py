"""Files with the results of a stateful step, which Spark reads where it computes the next step: an Arrow stream for each task."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import OFFSET, BatchId, Schema, visible
from etl.receipts import Receipt
from etl.spark.partitions import map_in_arrow
from etl.spark.query_context import QueryContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_results(batches: Iterable[pa.RecordBatch], path: Path, fields: Schema) -> None:
    """Write what a task gives to Spark; an attempt that runs again replaces the file."""
    with EventFileWriter(path, fields) as writer:
        for batch in batches:
            writer.add(batch)


class EventFileWriter:
    """Writes the events of a task to a file. There is a file if events are added, or if the writer is a context manager."""

    def __init__(self, path: Path, fields: Schema) -> None:
        self._path, self._fields = path, _with_offset(fields)
        self._out: pa.ipc.RecordBatchStreamWriter | None = None

    def __enter__(self) -> EventFileWriter:
        self._open()
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            self.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add events."""
        self._open().write_batch(batch)

    def close(self) -> None:
        """Name the file, if there is one."""
        if self._out is not None:
            self._out.close()
            self._path.with_suffix(".part").rename(self._path)

    def _open(self) -> pa.ipc.RecordBatchStreamWriter:
        if self._out is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._out = pa.ipc.new_stream(str(self._path.with_suffix(".part")), self._fields)
        return self._out


def event_file(query: QueryContext, batch: BatchId, receipt: Receipt, number: int) -> Path:
    """The file with the events of a task that Spark gets for an input of a stage; there is none if it had no events."""
    return event_file_of(query, batch, receipt.source, receipt.split, number)


def event_file_of(query: QueryContext, batch: BatchId, source: str, split: str, number: int) -> Path:
    """The same, by the task's source and split."""
    folder = query.state.staging(query.run_id, query.query, batch.number) / "events" / str(number)
    return folder / f"{hashlib.sha256(source.encode()).hexdigest()[:8]}-{split}.arrow"


def results_folder(query: QueryContext, batch: BatchId) -> Path:
    """Where the tasks of a micro-batch write their results."""
    return query.state.staging(query.run_id, query.query, batch.number) / "results"


def result_files(receipts: Sequence[Receipt], folder: Path) -> tuple[Path, ...]:
    """The files of tasks, in the order of their numbers."""
    return tuple(folder / f"{receipt.split}.arrow" for receipt in sorted(receipts, key=lambda one: one.order))


def fields_of(file: Path) -> Schema:
    """The fields of the events in a file of a task."""
    with pa.memory_map(str(file)) as source:
        return visible(pa.ipc.open_stream(source).schema)


def results_of(session: SparkSession, files: Sequence[Path], fields: Schema) -> DataFrame:
    """The events that tasks have written, a partition for each file."""
    from pyspark.sql.pandas.types import from_arrow_schema

    whole = _with_offset(fields)
    anonymous = pa.schema([(f"c{number}", field.type) for number, field in enumerate(whole)])
    numbers = session.range(0, len(files), 1, max(len(files), 1))
    return map_in_arrow(numbers, partial(_read, tuple(map(str, files))), from_arrow_schema(anonymous)).toDF(*whole.names)


def _with_offset(fields: Schema) -> Schema:
    return fields.append(pa.field(OFFSET, pa.int64()))


def _read(files: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            with pa.memory_map(files[number]) as file, pa.ipc.open_stream(file) as events:
                yield from (found.rename_columns([f"c{at}" for at in range(found.num_columns)]) for found in events)
