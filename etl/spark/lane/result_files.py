"""Files with the results of a stateful step, which Spark reads where it computes the next step: an Arrow stream for each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import OFFSET, BatchId, Schema
from etl.receipts import Receipt
from etl.spark.partitions import map_in_arrow
from etl.spark.query_context import QueryContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_results(batches: Iterable[pa.RecordBatch], path: Path, fields: Schema) -> None:
    """Write what a task gives to Spark; an attempt that runs again replaces the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_stream(file, _with_offset(fields)) as out:
        for batch in batches:
            out.write_batch(batch)
    temporary.rename(path)


def results_folder(query: QueryContext, batch: BatchId) -> Path:
    """Where the tasks of a micro-batch write their results."""
    return query.state.staging(query.run_id, query.query, batch.number) / "results"


def result_files(receipts: Sequence[Receipt], folder: Path) -> tuple[Path, ...]:
    """The files of tasks, in the order of their numbers."""
    return tuple(folder / f"{receipt.split}.arrow" for receipt in sorted(receipts, key=lambda one: one.order))


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
