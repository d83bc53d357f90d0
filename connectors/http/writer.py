"""Writes batches as HTTP requests."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pyarrow as pa

from connectors.http.bodies import Bodies
from connectors.http.client import Client
from connectors.http.connection import Response
from connectors.http.statuses import Handling, Statuses
from etl.api import ComponentError, Rejects, Result, Staged

TOO_LARGE = "event-too-large"
CONTENT_TOO_LARGE = 413

_SECONDS = re.compile(r"\s*([0-9]{1,9})[0-9]*(\.[0-9]{1,9})?\s*")


@dataclass
class RequestWriter:
    """Writer: one request a batch. It is divided if it is too large for the server, or if the server rejects some events only.

    What is retried is divided as before, so a server that knows requests by their content knows them again. Memory: the
    batch's body, twice.
    """

    client: Client
    bodies: Bodies
    statuses: Statuses
    _undelivered: list[tuple[int, int]] = field(default_factory=list, init=False)
    """Parts of the rows that are retried, the last first; empty unless the batch before was not delivered."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event in a body, with its share of the text around it."""
        return self.bodies.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send the batch and handle the response's status."""
        encoded = self.bodies.encode(batch)
        rejected: list[Rejects] = []
        parts, self._undelivered = self._undelivered, []
        if not parts or parts[0][1] != batch.num_rows:
            parts = [(0, batch.num_rows)]
        while parts:
            first, last = parts.pop()
            rows = batch.slice(first, last - first)
            try:
                response = self.send(encoded.body(first, last), rows)
            except OSError as error:
                return self._retry([*parts, (first, last)], rejected, str(error))
            is_divisible = response.status == CONTENT_TOO_LARGE and last - first > 1
            handling = "dead" if is_divisible else self.handling(response)
            if handling == "retry":
                after = parse_retry_after(response.headers.get("retry-after"))
                return self._retry([*parts, (first, last)], rejected, response.describe(), after)
            if handling == "stop":
                raise ComponentError(
                    f"{response.describe()}; the run ends (see stop_on) without loss: the next run sends these events again"
                )
            if handling == "dead" and (cuts := self._divide(response, last - first)):
                edges = [first, *(first + cut for cut in cuts), last]
                parts += [*itertools.pairwise(edges)][::-1]
            elif handling == "dead":
                rejected.append(self.rejects(response, rows))
        return Result(rejected=rejected)

    def _divide(self, response: Response, count: int) -> Sequence[int]:
        """Return where to divide a request, within it."""
        cuts = [count // 2] if response.status == CONTENT_TOO_LARGE else self.bodies.divide(response, count)
        return [cut for cut in cuts if 0 < cut < count]

    def close(self) -> Staged | None:
        """Return nothing: nothing is staged."""
        return None

    def abort(self) -> None:
        """Do nothing: events already sent are sent again."""

    def handling(self, response: Response) -> Handling:
        """Return what is done about a response."""
        return self.statuses.handling(response.status)

    def rejects(self, response: Response, rows: pa.RecordBatch) -> Rejects:
        """Return the dead letters of a request that the server rejects."""
        code = TOO_LARGE if response.status == CONTENT_TOO_LARGE else self.bodies.rejected_code
        return Rejects(rows, code, f"{response.status}: {response.reason()}")

    def send(self, body: bytes | memoryview, rows: pa.RecordBatch) -> Response:
        """Send a request with these rows. Raises OSError, ComponentError."""
        kind = self.bodies
        return self.client.request(kind.method, kind.path, body, kind.type, kind.headers(rows))

    def _retry(self, parts: list[tuple[int, int]], rejected: list[Rejects], cause: str, after: float = 0.0) -> Result:
        """Return the rows of these parts, the last first, as retryable. They end the batch, because parts are sent in order."""
        first, last = parts[-1][0], parts[0][1]
        self._undelivered = [(a - first, b - first) for a, b in parts]
        return Result(pa.array(range(first, last), pa.int64()), rejected, cause, after)


def parse_retry_after(header: str | None) -> float:
    """Return the seconds that Retry-After asks for, as a date or a number (RFC 9110; some send fractions); 0 if invalid."""
    if header is None:
        return 0
    if seconds := _SECONDS.fullmatch(header):
        return float(f"{seconds[1]}{seconds[2] or ''}")
    try:
        return (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return 0
