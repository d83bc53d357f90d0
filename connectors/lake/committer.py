"""Commits micro-batches to a table in the driver, and maintains the table in a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from connectors.lake.lake_table import LakeTable
from connectors.lake.parquet_files import Compression
from connectors.lake.writer import begun_paths, staged_files
from etl.api import BatchId, ComponentError, Staged

log = logging.getLogger("sluice.sink.lake")


@dataclass(frozen=True, slots=True)
class Maintenance:
    """When small files are merged and old versions removed."""

    every_seconds: float
    target_bytes: int
    keep_seconds: float
    compression: Compression
    """Compression of merged files."""


class LakeCommitter:
    """One commit of the table for each micro-batch; a second commit of the same micro-batch changes nothing."""

    def __init__(self, table: LakeTable, maintenance_table: LakeTable, maintenance: Maintenance | None) -> None:
        self.table, self.maintenance_table, self.maintenance = table, maintenance_table, maintenance
        self._due = time.monotonic() + (maintenance.every_seconds if maintenance else 0.0)
        self._has_committed = False
        self._thread: threading.Thread | None = None

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Add the data files of all tasks to the table, and remove those that killed attempts have begun."""
        files = list(staged_files(staged))
        if not files:
            return
        if not self.table.commit(batch.query, batch.number, [detail for _, detail in files]):
            return  # its files may be those of the first commit, so none is removed
        self._has_committed = True
        begun = begun_paths(sorted({output.path for output in staged}))
        if left := sorted(begun - {path for path, _ in files}):
            self.table.delete_files(left)

    def tick(self) -> None:
        """Begin maintenance when it is due and this run has written to the table."""
        if self.maintenance is None or not self._has_committed or time.monotonic() < self._due:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._due = time.monotonic() + self.maintenance.every_seconds
        self._has_committed = False
        self._thread = threading.Thread(target=self.maintain, name="lake-maintenance", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Maintain the table once more if it is due, and wait for maintenance that has begun."""
        self.tick()
        if self._thread is not None:
            self._thread.join()

    def maintain(self) -> None:
        """Merge small files, then remove old versions. What fails is done the next time: the table is complete without it."""
        assert self.maintenance is not None
        try:
            merged = self.maintenance_table.compact(self.maintenance.target_bytes, self.maintenance.compression)
            self.maintenance_table.expire(self.maintenance.keep_seconds)
        except (OSError, ComponentError) as error:
            log.warning("the table could not be maintained, which is tried again later: %s", error)
            return
        if merged:
            log.info("%s small data files were merged", f"{merged:,}")
