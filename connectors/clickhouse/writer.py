"""Writes batches as blocks of a table, each with a token by which ClickHouse recognises it when it is written again."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc

from connectors.clickhouse.errors import handling_of
from connectors.clickhouse.insert_bodies import InsertBodies, block_token
from connectors.clickhouse.tables import shared_columns
from connectors.http.connection import Response
from connectors.http.statuses import Handling
from connectors.http.writer import RequestWriter
from etl.api import Rejects, Result


@dataclass
class InsertWriter(RequestWriter):
    """Writer: one INSERT a batch. A block with bad rows is halved until they are alone.

    ``is_ordered`` says whether the split has the same events in the same order each time; None sends no tokens.
    """

    bodies: InsertBodies
    is_ordered: bool | None

    def write(self, batch: pa.RecordBatch) -> Result:
        """Insert the events whose values fit their columns."""
        misfits = self.bodies.find_misfits(batch)
        if misfits is None:
            return super().write(batch)
        bad, reasons = misfits
        rows = pc.indices_nonzero(pc.invert(bad)).cast(pa.int64())
        result = super().write(batch.take(rows)) if len(rows) else Result()
        retryable = None if result.retryable is None else rows.take(result.retryable)
        rejected = Rejects(batch.filter(bad), self.bodies.rejected_code, reasons)
        return Result(retryable, [rejected, *result.rejected], result.cause, result.after)

    def handling(self, response: Response) -> Handling:
        """Return what is done about a response: ClickHouse's code decides, else the status."""
        handling = handling_of(response) or super().handling(response)
        if handling == "stop":  # perhaps because a column is gone: the next run asks again
            shared_columns.cache_clear()
        return handling

    def send(self, body: bytes | memoryview, rows: pa.RecordBatch) -> Response:
        """Send rows with their token."""
        path = self.bodies.path
        if self.is_ordered is not None:
            token = block_token(rows, memoryview(body), self.is_ordered)
            path += "&" + urlencode({"insert_deduplication_token": token})
        return self.client.request(self.bodies.method, path, body, self.bodies.type)
