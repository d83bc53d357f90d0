"""What the two formats have in common: what a task needs of a table, and what the driver does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from connectors.lake.parquet_files import Compression, WrittenFile
from connectors.lake.partition_division import Key
from connectors.lake.partition_fields import PartitionField


@dataclass(frozen=True)
class TableLayout:
    """A table as tasks write to it."""

    schema: pa.Schema
    """Columns of the table."""
    partition_keys: Callable[[pa.RecordBatch], Sequence[pa.Array]]
    """Flat rows → the values of each partition field."""
    stored: Callable[[pa.Schema], pa.Schema]
    """Columns of the table that events have → columns of a data file."""
    new_path: Callable[[Key, str], str]
    """Key and file name → path in the file system."""
    file_system: Any
    describe: Callable[[WrittenFile], Any]
    """A finished file → what the commit adds to the table, picklable."""
    column_options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of Parquet."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a sink says about its table."""

    partition_by: tuple[PartitionField, ...]
    evolve: bool
    properties: Mapping[str, str]
    """Properties of a table that is created."""


class LakeTable(Protocol):
    """A table of one format. OSError is temporary; ComponentError ends the run."""

    def prepare(self, columns: pa.Schema, options: TableOptions) -> None:
        """Create the table if it is missing, and change it so that it stores these columns."""

    def problems(self, columns: pa.Schema, options: TableOptions) -> Sequence[str]:
        """What `prepare` would refuse; changes nothing."""

    def layout(self) -> TableLayout:
        """How tasks write to the table."""

    def commit(self, query: str, number: int, added: Sequence[Any]) -> bool:
        """Add data files as micro-batch ``number`` of a query. False if the table has this micro-batch, or a later one."""

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove data files that no commit has added."""

    def compact(self, target_bytes: int, compression: Compression) -> int:
        """Merge small data files into files of up to this size; returns how many were replaced."""

    def expire(self, keep_seconds: float) -> None:
        """Remove versions that are older, and the files that only they have."""
