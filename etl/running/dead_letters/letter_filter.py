"""Which dead letters a command or request is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import EtlError

_WHOLE_NAME = re.compile(r"(?:sink|source) .+|.+\[\d+\] \w+")
"""The name of a sink or source, or of a step with its stream, number and type: others may begin with it."""

Mask = Callable[[pa.RecordBatch], pa.Array]
"""Whether each letter of a batch is chosen."""


@dataclass(frozen=True)
class LetterFilter:
    """Keeps letters that fulfil all of the given conditions."""

    at: str | None = None
    """A text in the name of the step, sink or source that rejected them; a whole name is this one alone."""
    code: str | None = None
    reason: str | None = None
    """A text in the reason."""
    text: str | None = None
    """A text in the event."""
    since: str | None = None
    """The first time, ISO 8601, in UTC if it has no zone."""
    until: str | None = None
    """The time before which they were rejected."""

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            parse_time(name, getattr(self, name))

    def choose(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The letters of a batch that are chosen."""
        for mask in self._masks():
            batch = batch.filter(pc.fill_null(mask(batch), False))
        return batch

    def _masks(self) -> Iterator[Mask]:
        if self.at is not None and _WHOLE_NAME.fullmatch(self.at):
            yield lambda batch: pc.equal(batch.column("at"), self.at)
        elif self.at is not None:
            yield partial(_has_text, "at", self.at)
        for field, part in (("reason", self.reason), ("event", self.text)):
            if part is not None:
                yield partial(_has_text, field, part)
        if self.code is not None:
            yield lambda batch: pc.equal(batch.column("code"), self.code)
        for name, compare in (("since", pc.greater_equal), ("until", pc.less)):
            if (limit := parse_time(name, getattr(self, name))) is not None:
                yield partial(_compare_time, compare, pa.scalar(limit, pa.timestamp("us", "UTC")))


def parse_time(name: str, text: str | None) -> datetime | None:
    """A time of day in UTC. Raises EtlError for a text that is not a time."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise EtlError(f"{name}: {text!r} is not a time such as 2026-01-31 or 2026-01-31T10:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _has_text(field: str, text: str, batch: pa.RecordBatch) -> pa.Array:
    return pc.match_substring(batch.column(field), text)


def _compare_time(compare: Callable[[pa.Array, pa.Scalar], pa.Array], limit: pa.Scalar, batch: pa.RecordBatch) -> pa.Array:
    return compare(batch.column("time"), limit)


NO_LETTERS = LetterFilter(until="0001-01-01T00:00:00Z")
"""Keeps none: a replay of these only finishes those that did not end."""
