"""Writing batches as requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pyarrow as pa

from connectors.http.bodies import Format, key_of, kind_of, lines_of
from connectors.http.client import Client
from connectors.http.connection import Answer
from connectors.http.statuses import Statuses
from etl.api import ComponentError, Rejects, Result, Staged

REJECTED, TOO_LARGE = "http-rejected", "event-too-large"
TOO_MUCH = 413


@dataclass
class RequestWriter:
    """Writer: a request a batch; one that the server finds too large is cut in halves.

    Memory: the batch's body, twice.
    """

    client: Client
    method: str
    format: Format
    statuses: Statuses
    key_header: str | None

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Bytes of each event in a body, with its share of what stands around it."""
        return pa.array(lines_of(batch)[1] + kind_of(self.format).extra)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send it; look at the status."""
        import numpy as np

        text, lengths = lines_of(batch)
        ends = np.concatenate(([0], np.cumsum(lengths)))
        rejected: list[Rejects] = []
        parts = [(0, batch.num_rows)]
        while parts:
            first, last = parts.pop()
            rows = batch.slice(first, last - first)
            try:
                answer = self._ask(text[ends[first] : ends[last]], ends[first + 1 : last + 1] - ends[first], rows)
            except OSError as error:
                return self._again(first, batch.num_rows, rejected, str(error))
            if answer.status == TOO_MUCH and last - first > 1:
                middle = (first + last) // 2
                parts += [(middle, last), (first, middle)]
            elif (fate := self.statuses.fate(answer.status)) == "retry":
                after = asked_wait(answer.headers.get("retry-after"))
                return self._again(first, batch.num_rows, rejected, answer.said(), after)
            elif fate == "stop":
                raise ComponentError(
                    f"{answer.said()}; the run ends (see stop_on), nothing is lost: the next run sends these events again"
                )
            elif fate == "dead":
                code = TOO_LARGE if answer.status == TOO_MUCH else REJECTED
                rejected.append(Rejects(rows, code, f"{answer.status}: {answer.reason()}"))
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Nothing is staged."""
        return None

    def abort(self) -> None:
        """What was sent is sent again."""

    def _ask(self, lines: memoryview, ends: Any, rows: pa.RecordBatch) -> Answer:
        kind = kind_of(self.format)
        more = {self.key_header: key_of(rows)} if self.key_header else {}
        return self.client.ask(self.method, "", kind.join(lines, ends), kind.type, more)

    def _again(self, first: int, last: int, rejected: list[Rejects], cause: str, after: float = 0.0) -> Result:
        """Rows from ``first`` on were not taken: parts are sent in their order."""
        return Result(pa.array(range(first, last), pa.int64()), rejected, cause, after)


def asked_wait(header: str | None) -> float:
    """Seconds that Retry-After asks for: a number or a date (RFC 9110); 0 for none, and for what is neither."""
    if header is None:
        return 0
    if header.strip().isdecimal():
        return float(header.strip()[:9])
    try:
        return (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return 0
