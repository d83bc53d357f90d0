"""Snapshots of an Iceberg table: which micro-batches they have committed, and which may be removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

QUERY, BATCH = "sluice.query", "sluice.batch"
"""Properties of a snapshot: the query whose micro-batch it has added, and the number of that."""

MAX_EXPIRED = 1000
"""Snapshots that one maintenance removes at most."""


def committed_key(query: str) -> str:
    """The property of the table with the number of a query's last micro-batch: it outlives the query's snapshots."""
    return f"sluice.committed.{query}"


def committed_batch(table: Table, query: str) -> int | None:
    """The number of the query's last micro-batch in the table, by the history of its snapshots and by its properties."""
    stored = table.properties.get(committed_key(query))
    numbers = [int(stored)] if stored is not None and stored.isdecimal() else []
    for snapshot in ancestors(table):
        summary = snapshot.summary
        if summary is not None and summary.get(QUERY) == query:
            numbers.append(int(summary.get(BATCH) or 0))
            break
    return max(numbers, default=None)


def ancestors(table: Table) -> Iterator[Snapshot]:
    """The current snapshot and those before it, as far as they are still there."""
    by_id = {one.snapshot_id: one for one in table.metadata.snapshots}
    found = by_id.get(table.metadata.current_snapshot_id or 0)
    while found is not None:
        yield found
        found = by_id.get(found.parent_snapshot_id or 0)


def expire(table: Table, before_ms: int) -> int:
    """Remove snapshots from before a time, and the files that only they have. Returns how many snapshots were removed.

    A table with branches or tags is left alone: which files their snapshots need is for a tool with the whole picture.
    """
    if set(table.metadata.refs) - {"main"}:
        return 0
    history = list(ancestors(table))
    remaining_snapshots = [one for one in history if one.timestamp_ms >= before_ms] or history[:1]
    expired = history[len(remaining_snapshots) :][-MAX_EXPIRED:]
    if not expired:
        return 0
    oldest = history[len(history) - len(expired) - 1]
    needed = {one.manifest_path for one in oldest.manifests(table.io)}
    manifests = {one.manifest_path: one for snapshot in expired for one in snapshot.manifests(table.io)}
    unneeded = [one for path, one in manifests.items() if path not in needed]
    removed = _deleted_files(table, [*unneeded, *oldest.manifests(table.io)])
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in expired]).commit()
    lists = [one.manifest_list for one in expired if one.manifest_list]
    for path in [*removed, *(one.manifest_path for one in unneeded), *lists]:
        with suppress(OSError):
            table.io.delete(path)
    return len(expired)


def _deleted_files(table: Table, manifests: Sequence[Any]) -> set[str]:
    """Data files that these manifests say were deleted: history is a line, so that no later snapshot has them."""
    from pyiceberg.manifest import ManifestEntryStatus

    return {
        entry.data_file.file_path
        for manifest in manifests
        if manifest.deleted_files_count != 0
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        if entry.status == ManifestEntryStatus.DELETED
    }
