"""Commits files that cannot grow (Parquet, object stores) in the driver: events are collected until a part is full.

A commit moves staged files to the state folder and records them: durable, and not visible outside. When a part is full or
old, its files are joined to one that appears as a whole under a name recorded before: after a kill in between, the next start
writes the same part again.
"""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence

from connectors.file.writing import file_operations, ledger
from connectors.file.writing.disk_sync import make_durable
from connectors.file.writing.ledger import Pending
from connectors.file.writing.part_layout import PartLayout
from connectors.file.writing.staged_files import StagedFile
from connectors.file.writing.stores import Store, link
from etl.api import BatchId, ComponentError, Staged, write_advice

log = logging.getLogger("sluice.sink.file")

MAX_PARTS_AT_ONCE = 256
"""Maximum number of parts published together: each needs its disk space twice until then."""

Join = Callable[[Sequence[str], int, str], None]
"""Joins files: their paths, the bytes of the header that each begins with, and the target."""


class PartPublisher:
    """Committer that collects events in the state folder and publishes parts."""

    def __init__(self, folder: str, layout: PartLayout, join: Join, store: Store) -> None:
        self.layout, self.join, self.store = layout, join, store
        self.folder = os.path.join(folder, "pending")
        self.lock = threading.Lock()
        self.ledger = ledger.load(folder)
        self._recover()

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Take over the staged files, then publish full parts."""
        with self.lock:
            if self.ledger.holds(batch):
                return
            self._take_over(batch, [piece for output in staged for piece in output.detail])
            self._publish_where(self._full())

    def tick(self) -> None:
        """Publish old parts; a failure is retried at the next tick."""
        with self.lock:
            now = time.time()
            try:
                self._publish_where(lambda pending: self.layout.is_old(pending, now))
            except ComponentError as error:
                log.warning("%s", error)

    def close(self) -> None:
        """Publish all parts."""
        with self.lock:
            self._publish_where(lambda pending: True)

    def _take_over(self, batch: BatchId, pieces: Sequence[StagedFile]) -> None:
        before, moved = copy.deepcopy((self.ledger.pending, self.ledger.batches)), list[tuple[str, str]]()
        now = time.time()
        newest = {pending.key: pending for pending in self.ledger.pending if pending.part is None}
        try:
            for piece in pieces:
                pending = newest.get(piece.key)
                if pending is None or not self._accepts(pending, piece, now):
                    pending = newest[piece.key] = Pending(piece.key, piece.shape, now, piece.header)
                    self.ledger.pending.append(pending)
                name = f"{self.ledger.next():012d}"
                file_operations.rename(piece.path, self._path(name))
                moved.append((self._path(name), piece.path))
                pending.files.append(name)
                pending.bytes += piece.bytes
            make_durable((path for path, _ in moved), [self.folder])
            self.ledger.batches[batch.query] = batch.number
            self.ledger.save()
        except OSError as error:
            self.ledger.pending, self.ledger.batches = before
            for path, origin in moved:
                file_operations.rename(path, origin)
            raise ComponentError(
                f"cannot store {error.filename}: {error.strerror}; nothing is lost: {write_advice(error)}, and start again"
            ) from error

    def _accepts(self, pending: Pending, piece: StagedFile, now: float) -> bool:
        return pending.shape == piece.shape and self.layout.accepts(pending, pending.bytes, piece, now)

    def _full(self) -> Callable[[Pending], bool]:
        """Return whether a part is followed by a newer one for the same path, or is large enough."""
        newest = {other.key: other for other in self.ledger.pending}
        return lambda pending: (
            self.layout.is_folder and (pending is not newest[pending.key] or self.layout.is_full(pending.bytes))
        )

    def _publish_where(self, due: Callable[[Pending], bool]) -> None:
        ready = [pending for pending in self.ledger.pending if pending.part or due(pending)]
        for at in range(0, len(ready), MAX_PARTS_AT_ONCE):
            self._publish(ready[at : at + MAX_PARTS_AT_ONCE])

    def _publish(self, group: Sequence[Pending]) -> None:
        """Publish parts; those before a failed one stay published."""
        if any(pending.part is None for pending in group):
            for pending in group:
                pending.part = pending.part or self._name(pending)
            self.ledger.save()
        done: list[Pending] = []
        try:
            for pending in group:
                self._publish_part(pending)
                done.append(pending)
        except OSError as error:
            raise ComponentError(
                f"cannot write {pending.part}: {error}; {write_advice(error)}; its events are stored in {self.folder} and "
                "written at the next start"
            ) from error
        finally:
            self._remove_published(done)

    def _publish_part(self, pending: Pending) -> None:
        assert pending.part is not None
        whole = self._path("part.tmp")
        file_operations.remove(whole)
        files = [self._path(name) for name in pending.files]
        with file_operations.removed_on_failure(whole):
            if len(files) == 1:
                link(files[0], whole)
            else:
                self.join(files, pending.header, whole)
            if (mode := self.layout.file_mode) is not None:
                os.chmod(whole, mode)
            self.store.put(whole, pending.part)

    def _remove_published(self, published: Sequence[Pending]) -> None:
        """Make the published parts durable and delete their source files."""
        if not published:
            return
        try:
            self.store.sync([pending.part or "" for pending in published])
        except OSError as error:
            raise ComponentError(
                f"cannot write {error.filename}: {error.strerror}; {write_advice(error)}; its events are stored in "
                f"{self.folder}, and written at the next start"
            ) from error
        gone = {id(pending) for pending in published}
        self.ledger.pending = [pending for pending in self.ledger.pending if id(pending) not in gone]
        self.ledger.save()
        for name in (name for pending in published for name in pending.files):
            os.unlink(self._path(name))

    def _name(self, pending: Pending) -> str:
        """Return a free name; an existing single file becomes the first of those to be joined."""
        if self.layout.is_folder:
            while True:
                path = self.layout.new_path(pending.key, pending.since, self.ledger.next())
                if not self.store.exists(path):
                    return path
        if self.store.exists(pending.key):
            name = f"{self.ledger.next():012d}"
            self.store.fetch(pending.key, self._path(name))
            pending.files.insert(0, name)
        return pending.key

    def _recover(self) -> None:
        os.makedirs(self.folder, exist_ok=True)
        known = {name for pending in self.ledger.pending for name in pending.files}
        for name in os.listdir(self.folder):
            if name not in known:
                os.unlink(self._path(name))
        for name in known:
            if not os.path.exists(self._path(name)):
                raise ComponentError(f"{self._path(name)} is missing, and with it committed events that are in no part yet")
        self._publish_where(lambda pending: False)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


def join_bytes(files: Sequence[str], header: int, target: str) -> None:
    """Concatenate files, with one header."""
    out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        end = 0
        for file in files:
            end = file_operations.append(file, header if end else 0, os.path.getsize(file), out, end)
    finally:
        os.close(out)


def join_parquet(files: Sequence[str], header: int, target: str) -> None:
    """Write all row groups, small ones merged. Memory: one row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    opened = [pq.ParquetFile(file) for file in files]
    schema = opened[0].schema_arrow
    for file in opened:
        if not file.schema_arrow.equals(schema):
            raise ComponentError(f"{target}: these events have other columns than the file; write to a folder or to another file")
    codec = opened[-1].metadata.row_group(0).column(0).compression if opened[-1].metadata.num_row_groups else "NONE"
    waiting: list[pa.Table] = []
    with pq.ParquetWriter(target, schema, compression=codec) as out:
        for file in opened:
            for number in range(file.num_row_groups):
                waiting.append(file.read_row_group(number))
                if sum(table.num_rows for table in waiting) >= ROW_GROUP_EVENTS:
                    out.write_table(pa.concat_tables(waiting))
                    waiting.clear()
        if waiting:
            out.write_table(pa.concat_tables(waiting))


ROW_GROUP_EVENTS = 100_000
"""Minimum number of events of a written row group."""
