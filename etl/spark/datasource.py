"""The Python data source that Spark loads: it holds a pickled `SplitPlanner` and a pickled `SplitReader`.

Each is unpickled when one of its methods is called. Spark starts several Python processes for a data source, most of which need
only the class: leaving the rest pickled saves each of them a quarter second and 40 MB. For the same reason this module imports no
other of ours at load time. The data source has no options, so that no plan and no secret appears in Spark's plans.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from etl.spark.split_planner import SplitPlanner
    from etl.spark.splits import SplitReader


@lru_cache(8)
def _load_reader(reader: bytes) -> SplitReader:
    """The reader, once in each worker: it reads a split in each micro-batch."""
    found: SplitReader = pickle.loads(reader)
    return found


class SealedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Passes Spark's calls on to the pickled `SplitPlanner` or `SplitReader`."""

    def __init__(self, planner: bytes, reader: bytes) -> None:
        self._sealed = planner, reader

    def __getstate__(self) -> dict[str, Any]:
        return {"_sealed": self._sealed}

    @cached_property
    def _planner(self) -> SplitPlanner:
        return pickle.loads(self._sealed[0])

    @cached_property
    def _reader(self) -> SplitReader:
        return _load_reader(self._sealed[1])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The first offset of a new checkpoint."""
        return self._planner.initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """No limit of Spark's: `SplitPlanner` limits micro-batches."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The target is fixed by the first call of `latestOffset`, which has the checkpoint's offset."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end offset of the micro-batch; ``start`` itself when there is nothing to read."""
        return self._planner.latest_offset(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The splits between two offsets."""
        return [InputPartition(task) for task in self._planner.plan_tasks(start, end)]

    def commit(self, end: dict[str, Any]) -> None:
        """All sinks have the events before ``end``."""
        self._planner.commit(end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One split, in a worker."""
        return self._reader.read(partition.value)


def data_source(name: str, planner: bytes, reader: bytes, fields: StructType | str) -> type[DataSource]:
    """Make a data source class that contains its pickled planner and reader, so that no option shows them."""

    class Splits(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType | str:
            return fields

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return SealedReader(planner, reader)

    return Splits
