"""Writing bounded batches through the bulk API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from connectors.elasticsearch.answers import QUERY, Item, items, reason_in, refuse
from connectors.elasticsearch.documents import Documents, refused_ids
from connectors.elasticsearch.names import IndexLimit
from connectors.http.client import Client
from connectors.http.connection import Answer
from etl.api import ComponentError, Rejects, Result, Staged

MOST_REFUSED_ALONE = 20
"""Single documents that may fail a whole request before the request is thought wrong, and not they."""

REJECTED, TOO_LARGE, BAD_ID, TOO_MANY = "elasticsearch-rejected", "event-too-large", "bad-id", "too-many-indices"

_Refused = tuple[pa.Array, str, pa.Array]
"""Events that are not sent (a mask over the batch), the code, and a reason for each of them."""


@dataclass
class BulkWriter:
    """Writer: one request a batch; one that is too large for the server is cut in halves, and so are those behind it.

    Memory: the batch's bodies, twice its bytes at most.
    """

    client: Client
    documents: Documents
    pipeline: str | None = None
    limit: IndexLimit | None = None
    _most_bytes: int = 1 << 62
    """What the server is known to take."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Bytes of each event's action and document."""
        return pa.array(self.documents.lines(batch).lengths)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send it; look what became of each document."""
        rejected: list[Rejects] = []
        rows: pa.Array | None = None  # where the events that are sent were in the batch; None for all of it
        for find in (self._bad_ids, self._beyond_limit):
            found = find(batch)
            if found is not None:
                bad, code, reasons = found
                rejected.append(Rejects(batch.filter(bad), code, reasons))
                good = pc.invert(bad)
                kept = pc.indices_nonzero(good).cast(pa.int64())
                rows = kept if rows is None else rows.take(kept)
                batch = batch.filter(good)
        result = self._written(batch)
        retryable = result.retryable if rows is None or result.retryable is None else rows.take(result.retryable)
        return Result(retryable, [*rejected, *result.rejected], result.cause)

    def _bad_ids(self, batch: pa.RecordBatch) -> _Refused | None:
        refused = refused_ids(self.documents.ids(batch))
        return None if refused is None else (refused[0], BAD_ID, refused[1])

    def _beyond_limit(self, batch: pa.RecordBatch) -> _Refused | None:
        names = self.documents.field_indices(batch)
        if names is None or self.limit is None:
            return None
        bad = self.limit.beyond(names)
        if bad is None:
            return None
        said = pc.binary_join_element_wise(names.filter(bad), f"would be more than max_indices, {self.limit.most:,}", " ")
        return bad, TOO_MANY, said

    def close(self) -> Staged | None:
        """Nothing is staged."""
        return None

    def abort(self) -> None:
        """What was sent stays, and is sent again under the same ids."""

    def _written(self, batch: pa.RecordBatch) -> Result:
        import numpy as np

        lines = self.documents.lines(batch)
        ends = np.concatenate(([0], np.cumsum(lines.lengths)))
        told = _Told(batch)
        parts = self._parts(ends, 0, batch.num_rows)
        while parts:
            first, last = parts.pop()
            try:
                answer = self._ask(lines.text[ends[first] : ends[last]])
                if answer.status in (400, 413) and last - first > 1:
                    parts += self._halves(answer, ends, first, last)
                elif answer.status in (400, 413):
                    told.alone(answer, first)
                elif answer.status == 200:
                    told.items(items(answer, self.documents.action, last - first), first, answer.place)
                else:
                    refuse(answer)
            except OSError as error:
                told.retry(range(first, last), str(error))
        return told.result()

    def _ask(self, body: memoryview) -> Answer:
        pipeline = f"&pipeline={quote(self.pipeline)}" if self.pipeline else ""
        return self.client.ask("POST", f"{self.documents.path}?{QUERY}{pipeline}", body, "application/x-ndjson")

    def _halves(self, answer: Answer, ends: Any, first: int, last: int) -> list[tuple[int, int]]:
        """The rows again, in smaller requests; those in front are the last, from where they are taken."""
        if answer.status == 413:
            self._most_bytes = min(self._most_bytes, int(ends[last] - ends[first]) // 2)
            return self._parts(ends, first, last)
        middle = (first + last) // 2
        return [(middle, last), (first, middle)]

    def _parts(self, ends: Any, first: int, last: int) -> list[tuple[int, int]]:
        """Rows cut into what the server takes, but at least one; the first at the end."""
        parts = []
        while first < last:
            behind = int(ends.searchsorted(ends[first] + self._most_bytes, side="right")) - 1
            behind = min(max(behind, first + 1), last)
            parts.append((first, behind))
            first = behind
        return parts[::-1]


@dataclass
class _Told:
    """What the answers said about the rows of a batch."""

    batch: pa.RecordBatch
    again: list[int] = field(default_factory=list)
    dead: dict[str, dict[int, str]] = field(default_factory=dict)
    cause: str = ""
    _alone: int = 0

    def items(self, found: list[Item], first: int, place: str) -> None:
        """Take in an answer for rows from ``first`` on."""
        for row, fate, reason in found:
            if fate == "retry":
                self.retry([first + row], f"{place} answers {reason}")
            elif fate == "dead":
                self.dead.setdefault(REJECTED, {})[first + row] = reason
            elif fate == "stop":
                raise ComponentError(f"{place} refuses documents: {reason}; nothing is lost: the next run begins with them again")

    def alone(self, answer: Answer, row: int) -> None:
        """A request of one document was refused."""
        self._alone += 1
        reason = f"{answer.status}: {reason_in(answer)}"
        if self._alone > MOST_REFUSED_ALONE:
            raise ComponentError(
                f"{answer.place} refuses requests: {reason}; nothing is lost: the next run begins with them again"
            )
        self.dead.setdefault(TOO_LARGE if answer.status == 413 else REJECTED, {})[row] = reason

    def retry(self, rows: Any, cause: str) -> None:
        """These are to be sent again."""
        self.again.extend(rows)
        self.cause = cause

    def result(self) -> Result:
        """For the engine."""
        rejected = [
            Rejects(self.batch.take(pa.array(list(rows))), code, pa.array(list(rows.values()), pa.string()))
            for code, rows in self.dead.items()
        ]
        return Result(pa.array(sorted(self.again), pa.int64()) if self.again else None, rejected, self.cause)
