"""Writes batches as export requests, and reads how many records a receiver rejects."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pyarrow as pa

from connectors.http.connection import Response
from connectors.http.statuses import Handling
from connectors.http.writer import RequestWriter
from connectors.opentelemetry.export_response import parse_partial_success, with_status_message
from connectors.opentelemetry.log_bodies import LogBodies
from connectors.shared.row_groups import sort_by_group
from etl.api import Rejects, Result, cut

log = logging.getLogger("sluice.opentelemetry")

PARTLY_REJECTED = "otlp-partly-rejected"
MAX_REASON = 300


@dataclass
class LogWriter(RequestWriter):
    """Writer: one request a batch, sorted by resources."""

    bodies: LogBodies

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send the events of each resource together."""
        if all(template.is_constant for template in self.bodies.resource.values()):
            return super().write(batch)
        order = sort_by_group(self.bodies.resources(batch))
        result = super().write(batch.take(order))
        retryable = None if result.retryable is None else order.take(result.retryable).sort()
        return Result(retryable, result.rejected, result.cause, result.after)

    def send(self, body: bytes | memoryview, rows: pa.RecordBatch) -> Response:
        """Send a request; an error's body becomes its message."""
        return with_status_message(super().send(body, rows))

    def handling(self, response: Response) -> Handling:
        """Return what is done about a response; of a partial success all events are dead letters."""
        handling = super().handling(response)
        if handling != "done":
            return handling
        partial = parse_partial_success(response)
        if partial.message and not partial.rejected:
            log.warning("%s accepts the records and warns: %s", response.server, cut(partial.message, MAX_REASON))
        return "dead" if partial.rejected else "done"

    def rejects(self, response: Response, rows: pa.RecordBatch) -> Rejects:
        """Return the dead letters of a request."""
        if response.status >= 300:
            return super().rejects(response, rows)
        partial = parse_partial_success(response)
        if partial.rejected >= rows.num_rows:
            return Rejects(rows, self.bodies.rejected_code, cut(partial.message, MAX_REASON))
        reason = f"{partial.rejected:,} of the {rows.num_rows:,} records of its request are rejected, without saying which: "
        return Rejects(rows, PARTLY_REJECTED, reason + cut(partial.message, MAX_REASON))
