"""Merges small data files of an Iceberg table, for which PyIceberg has no operation of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from connectors.lake.iceberg_types import arrow_columns
from connectors.lake.parquet_files import ParquetFiles

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

ATTEMPTS = 10
"""Attempts to commit merged files while other writers commit."""

MAX_MERGED_BYTES = 8 << 30
"""Bytes of small files that one maintenance merges at most."""

MERGED = {"sluice.compact": "true"}
"""Properties of a snapshot that only merges files."""


def merge_small_files(
    table: Table, target_bytes: int, describe: Callable[[Any], Any], data_file: Callable[[Any], Any], files_of: Callable[..., Any]
) -> int:
    """Replace groups of small files of a partition by one file each. Returns how many files were replaced."""
    merged = 0
    for group in small_file_groups(table.scan().plan_files(), target_bytes, table.metadata.default_spec_id):
        merged += _merge(table, group, describe, data_file, files_of)
    return merged


def small_file_groups(tasks: Any, target_bytes: int, spec_id: int) -> Iterator[Sequence[FileScanTask]]:
    """Groups of files of one partition that together are at most as large as the target; files with deleted rows stay."""
    partitions: dict[Any, list[FileScanTask]] = {}
    for task in tasks:
        if not task.delete_files and task.file.spec_id == spec_id and task.file.file_size_in_bytes <= target_bytes // 2:
            partitions.setdefault(key_of(task), []).append(task)
    left = MAX_MERGED_BYTES
    for found in partitions.values():
        group: list[FileScanTask] = []
        size = 0
        for task in sorted(found, key=lambda one: one.file.file_size_in_bytes):
            if group and size + task.file.file_size_in_bytes > target_bytes:
                if len(group) > 1:
                    yield group
                group, size = [], 0
            group.append(task)
            size += task.file.file_size_in_bytes
            left -= task.file.file_size_in_bytes
            if left < 0:
                return
        if len(group) > 1:
            yield group


def key_of(task: FileScanTask) -> tuple[Any, ...]:
    """The values of a file's partition, as the manifest has them."""
    return tuple(task.file.partition[number] for number in range(len(task.file.partition)))


def _merge(
    table: Table,
    group: Sequence[FileScanTask],
    describe: Callable[[Any], Any],
    data_file: Callable[[Any], Any],
    files_of: Callable[..., ParquetFiles],
) -> int:
    from pyiceberg.exceptions import CommitFailedException, ValidationException
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    schema = arrow_columns(table.schema(), with_ids=True)
    files = files_of(key_of(group[0]), f"sluice-merged-{uuid4().hex}", schema)
    try:
        for rows in ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_record_batches(group):
            files.write((), rows.cast(pa.schema(list(schema))))
        added = [data_file(describe(file)) for file in files.close()]
        for _ in range(ATTEMPTS):
            table.refresh()
            transaction = table.transaction()
            with suppress(CommitFailedException):
                with transaction.update_snapshot(snapshot_properties=MERGED).overwrite() as change:
                    for task in group:
                        change.delete_data_file(task.file)
                    for one in added:
                        change.append_data_file(one)
                transaction.commit_transaction()
                return len(group)
    except ValidationException:  # another writer has removed one of the files
        files.abort()
        return 0
    except BaseException:
        files.abort()
        raise
    files.abort()
    return 0
