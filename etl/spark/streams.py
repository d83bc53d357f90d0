"""The streaming queries of a run: no more start at once than there are processors, and one that Spark gave up on starts again."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from etl.plan.model import QueryPlan

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

CAME_LATE = "failed to connect back"
"""What Spark says of a Python process that has not answered after 10 s, as on a busy machine: no setting makes it wait longer."""

STARTS = 4
"""Starts of one query, before that is an error."""

TURN_SECONDS = 60.0
"""How long a query waits for others that are starting, at most."""

_POLL = 0.05

log = logging.getLogger("sluice.streams")


class Turns:
    """Lets at most so many queries of a session start at once, of whatever pipeline."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._starting: list[StreamingQuery] = []

    def start(self, begin: Callable[[], StreamingQuery]) -> StreamingQuery:
        """Wait for a turn, and start a query."""
        with self._lock:
            until = time.monotonic() + TURN_SECONDS
            while self._busy() and time.monotonic() < until:
                time.sleep(_POLL)
            query = begin()
            self._starting.append(query)
            return query

    def _busy(self) -> bool:
        self._starting = [query for query in self._starting if _initializing(query)]
        return len(self._starting) >= self._at_once


class Streams:
    """Streaming queries by what they run; ``begin`` starts one. A query that is started again goes on from its checkpoint."""

    def __init__(self, begin: Callable[[QueryPlan], StreamingQuery], turns: Turns) -> None:
        self._begin, self._turns = begin, turns
        self._queries: dict[str, tuple[QueryPlan, StreamingQuery]] = {}
        self._starts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[QueryPlan, StreamingQuery]]:
        return iter(list(self._queries.values()))

    @property
    def active(self) -> bool:
        """Whether any has not ended."""
        return any(query.isActive for _, query in self)

    def start(self, plan: QueryPlan) -> None:
        """Start a query. Raises what Spark raises."""
        self._starts[plan.name] += 1
        self._queries[plan.name] = plan, self._turns.start(lambda: self._begin(plan))

    def started_again(self, plan: QueryPlan, error: BaseException) -> bool:
        """Start a query anew whose processes came too late for Spark; False where it failed for another reason, or too often."""
        if CAME_LATE not in str(error) or self._starts[plan.name] >= STARTS:
            return False
        log.warning("query %r: a Python process took more than 10 s to start; it is tried again", plan.name)
        self.start(plan)
        return True


def _initializing(query: StreamingQuery) -> bool:
    """Whether its sources' processes may still be starting."""
    return query.isActive and query.status["message"].startswith("Initializing")
