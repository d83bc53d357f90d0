"""Writes bounded batches through the bulk API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from connectors.elasticsearch.bulk_response import (
    RESPONSE_FILTER,
    DocumentFailure,
    error_reason,
    parse_bulk_response,
    raise_for_response,
)
from connectors.elasticsearch.documents import BulkEncoding, find_bad_ids
from connectors.http.client import Client
from connectors.http.connection import Response
from connectors.shared.distinct_limit import DistinctLimit
from etl.api import ComponentError, Rejects, Result, Staged, is_changing, last_of_keys

MAX_SINGLE_FAILURES = 20
"""Number of single-document requests that may fail before the fault is attributed to the request and not to the documents."""

REJECTED, TOO_LARGE, BAD_ID, TOO_MANY_INDICES = "elasticsearch-rejected", "event-too-large", "bad-id", "too-many-indices"

_RejectedRows = tuple[pa.Array, str, pa.Array]
"""Events that are not sent (a mask over the batch), the code, and a reason for each of them."""


@dataclass
class BulkWriter:
    """Writer: one request a batch; a request that is too large for the server is divided, and so are later ones.

    Memory: the batch's bodies, at most twice their bytes.
    """

    client: Client
    documents: BulkEncoding
    pipeline: str | None = None
    limit: DistinctLimit | None = None
    _max_request_bytes: int = 1 << 62
    """Largest request that the server is known to accept."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event's action and document."""
        return pa.array(self.documents.lines(batch).lengths)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send the batch and return the outcome of each document."""
        rejected: list[Rejects] = []
        rows: pa.Array | None = None  # rows of the sent events in the batch; None for all
        if is_changing(batch.schema):  # of a document only the last change counts
            rows = pa.array(last_of_keys(batch, self.documents.id))
            batch = batch.take(rows)
        for check in (self._check_ids, self._check_limit):
            found = check(batch)
            if found is not None:
                bad, code, reasons = found
                rejected.append(Rejects(batch.filter(bad), code, reasons))
                good = pc.invert(bad)
                good_rows = pc.indices_nonzero(good).cast(pa.int64())
                rows = good_rows if rows is None else rows.take(good_rows)
                batch = batch.filter(good)
        result = self._send_all(batch)
        retryable = result.retryable if rows is None or result.retryable is None else rows.take(result.retryable)
        return Result(retryable, [*rejected, *result.rejected], result.cause)

    def _check_ids(self, batch: pa.RecordBatch) -> _RejectedRows | None:
        bad_ids = find_bad_ids(self.documents.ids(batch))
        return None if bad_ids is None else (bad_ids[0], BAD_ID, bad_ids[1])

    def _check_limit(self, batch: pa.RecordBatch) -> _RejectedRows | None:
        names = self.documents.field_indices(batch)
        if names is None or self.limit is None:
            return None
        bad = self.limit.find_beyond(names)
        if bad is None:
            return None
        reasons = pc.binary_join_element_wise(names.filter(bad), f"would exceed max_indices, {self.limit.maximum:,}", " ")
        return bad, TOO_MANY_INDICES, reasons

    def close(self) -> Staged | None:
        """Return nothing: nothing is staged."""
        return None

    def abort(self) -> None:
        """Do nothing: documents already sent stay, and are sent again with the same ids."""

    def _send_all(self, batch: pa.RecordBatch) -> Result:
        import numpy as np

        lines = self.documents.lines(batch)
        ends = np.concatenate(([0], np.cumsum(lines.lengths)))
        outcome = _BatchOutcome(batch)
        parts = self._split_requests(ends, 0, batch.num_rows)
        while parts:
            first, last = parts.pop()
            try:
                response = self._send(lines.text[ends[first] : ends[last]])
                if response.status in (400, 413) and last - first > 1:
                    parts += self._divide(response, ends, first, last)
                elif response.status in (400, 413):
                    outcome.add_single_failure(response, first)
                elif response.status == 200:
                    outcome.add_failures(
                        parse_bulk_response(response, self.documents.action, last - first), first, response.server
                    )
                else:
                    raise_for_response(response)
            except OSError as error:
                outcome.retry(range(first, last), str(error))
        return outcome.result()

    def _send(self, body: memoryview) -> Response:
        pipeline = f"&pipeline={quote(self.pipeline)}" if self.pipeline else ""
        return self.client.request("POST", f"{self.documents.path}?{RESPONSE_FILTER}{pipeline}", body, "application/x-ndjson")

    def _divide(self, response: Response, ends: Any, first: int, last: int) -> list[tuple[int, int]]:
        """Return the rows as smaller requests, in reverse order."""
        if response.status == 413:
            self._max_request_bytes = min(self._max_request_bytes, int(ends[last] - ends[first]) // 2)
            return self._split_requests(ends, first, last)
        middle = (first + last) // 2
        return [(middle, last), (first, middle)]

    def _split_requests(self, ends: Any, first: int, last: int) -> list[tuple[int, int]]:
        """Divide rows into requests that the server accepts, each of at least one row, in reverse order."""
        parts = []
        while first < last:
            end = int(ends.searchsorted(ends[first] + self._max_request_bytes, side="right")) - 1
            end = min(max(end, first + 1), last)
            parts.append((first, end))
            first = end
        return parts[::-1]


@dataclass
class _BatchOutcome:
    """Outcome of the rows of a batch."""

    batch: pa.RecordBatch
    retryable: list[int] = field(default_factory=list)
    dead: dict[str, dict[int, str]] = field(default_factory=dict)
    cause: str = ""
    _single_failures: int = 0

    def add_failures(self, found: list[DocumentFailure], first: int, server: str) -> None:
        """Add the failed documents of a response for rows from ``first`` on."""
        for row, handling, reason in found:
            if handling == "retry":
                self.retry([first + row], f"{server} answers {reason}")
            elif handling == "dead":
                self.dead.setdefault(REJECTED, {})[first + row] = reason
            elif handling == "stop":
                raise ComponentError(f"{server} refuses documents: {reason}; nothing is lost: the next run sends them again")

    def add_single_failure(self, response: Response, row: int) -> None:
        """Add the failure of a request with one document."""
        self._single_failures += 1
        reason = f"{response.status}: {error_reason(response)}"
        if self._single_failures > MAX_SINGLE_FAILURES:
            raise ComponentError(f"{response.server} refuses requests: {reason}; nothing is lost: the next run sends them again")
        self.dead.setdefault(TOO_LARGE if response.status == 413 else REJECTED, {})[row] = reason

    def retry(self, rows: Any, cause: str) -> None:
        """Mark rows for a retry."""
        self.retryable.extend(rows)
        self.cause = cause

    def result(self) -> Result:
        """Return the result for the engine."""
        rejected = [
            Rejects(self.batch.take(pa.array(list(rows))), code, pa.array(list(rows.values()), pa.string()))
            for code, rows in self.dead.items()
        ]
        return Result(pa.array(sorted(self.retryable), pa.int64()) if self.retryable else None, rejected, self.cause)
