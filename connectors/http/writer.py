"""Writes batches as HTTP requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pyarrow as pa

from connectors.http.bodies import Format, batch_key, body_format, encode_lines
from connectors.http.client import Client
from connectors.http.connection import Response
from connectors.http.statuses import Statuses
from etl.api import ComponentError, Rejects, Result, Staged

REJECTED, TOO_LARGE = "http-rejected", "event-too-large"
CONTENT_TOO_LARGE = 413


@dataclass
class RequestWriter:
    """Writer: one request a batch; a request that is too large for the server is halved.

    Memory: the batch's body, twice.
    """

    client: Client
    method: str
    format: Format
    statuses: Statuses
    key_header: str | None

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event in a body, with its share of the text around it."""
        return pa.array(encode_lines(batch)[1] + body_format(self.format).extra)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send the batch and handle the response's status."""
        import numpy as np

        text, lengths = encode_lines(batch)
        ends = np.concatenate(([0], np.cumsum(lengths)))
        rejected: list[Rejects] = []
        parts = [(0, batch.num_rows)]
        while parts:
            first, last = parts.pop()
            rows = batch.slice(first, last - first)
            try:
                response = self._send(text[ends[first] : ends[last]], ends[first + 1 : last + 1] - ends[first], rows)
            except OSError as error:
                return self._retry(first, batch.num_rows, rejected, str(error))
            if response.status == CONTENT_TOO_LARGE and last - first > 1:
                middle = (first + last) // 2
                parts += [(middle, last), (first, middle)]
            elif (handling := self.statuses.handling(response.status)) == "retry":
                after = parse_retry_after(response.headers.get("retry-after"))
                return self._retry(first, batch.num_rows, rejected, response.describe(), after)
            elif handling == "stop":
                raise ComponentError(
                    f"{response.describe()}; the run ends (see stop_on) without loss: the next run sends these events again"
                )
            elif handling == "dead":
                code = TOO_LARGE if response.status == CONTENT_TOO_LARGE else REJECTED
                rejected.append(Rejects(rows, code, f"{response.status}: {response.reason()}"))
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Return nothing: nothing is staged."""
        return None

    def abort(self) -> None:
        """Do nothing: events already sent are sent again."""

    def _send(self, lines: memoryview, ends: Any, rows: pa.RecordBatch) -> Response:
        kind = body_format(self.format)
        more = {self.key_header: batch_key(rows)} if self.key_header else {}
        return self.client.request(self.method, "", kind.join(lines, ends), kind.type, more)

    def _retry(self, first: int, last: int, rejected: list[Rejects], cause: str, after: float = 0.0) -> Result:
        """Return the rows from ``first`` on as retryable, because parts are sent in order."""
        return Result(pa.array(range(first, last), pa.int64()), rejected, cause, after)


def parse_retry_after(header: str | None) -> float:
    """Return the seconds that Retry-After asks for, as a number or a date (RFC 9110); 0 if absent or invalid."""
    if header is None:
        return 0
    if header.strip().isdecimal():
        return float(header.strip()[:9])
    try:
        return (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return 0
