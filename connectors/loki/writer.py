"""Writes events to Loki: checks their streams, and sends each stream's events together."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from connectors.http.writer import RequestWriter
from connectors.loki.push_bodies import PushBodies
from connectors.shared.distinct_limit import DistinctLimit
from connectors.shared.row_groups import sort_by_group
from etl.api import Rejects, Result

NO_LABELS, TOO_MANY_STREAMS = "no-labels", "too-many-streams"


@dataclass
class LokiWriter(RequestWriter):
    """Writer: one request a batch, sorted by streams. Events without labels, or of too many streams, are rejected."""

    bodies: PushBodies
    limit: DistinctLimit

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send the events of streams within the limit."""
        rejected: list[Rejects] = []
        labels = self.bodies.stream_labels(batch)
        rows = pa.array(range(batch.num_rows), pa.int64())
        bare = pc.equal(labels, "{}")
        if bare.true_count:
            rejected.append(Rejects(batch.filter(bare), NO_LABELS, "no label has a value, and a stream needs one"))
            labels, rows = labels.filter(pc.invert(bare)), rows.filter(pc.invert(bare))
        beyond = self.limit.find_beyond(labels)
        if beyond is not None:
            reason = f"its stream would exceed max_streams, {self.limit.maximum:,}"
            rejected.append(Rejects(batch.take(rows.filter(beyond)), TOO_MANY_STREAMS, reason))
            labels, rows = labels.filter(pc.invert(beyond)), rows.filter(pc.invert(beyond))
        order = rows.take(sort_by_group(labels))
        if not len(order):
            return Result(rejected=rejected)
        result = super().write(batch.take(order))
        retryable = None if result.retryable is None else order.take(result.retryable).sort()
        return Result(retryable, [*rejected, *result.rejected], result.cause, result.after)
