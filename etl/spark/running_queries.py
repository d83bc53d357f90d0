"""The running streaming queries: limits how many start at the same time, restarts one whose Python worker starts too slowly."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from etl.plan.query_plan import QueryPlan

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SLOW_START = "failed to connect back"
"""Part of Spark's error for a Python process that did not connect within 10 s, as on a busy machine; the limit is fixed."""

MAX_STARTS = 4
"""Starts of one query after which the run fails."""

WAIT_SECONDS = 60.0
"""Maximum time that a query waits for others that are starting, in seconds."""

_POLL_SECONDS = 0.05

log = logging.getLogger("sluice.streams")


class StartLimiter:
    """Limits how many queries of a session start at the same time, over all pipelines."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._beginning = 0
        """Queries for which `begin` has not returned yet."""
        self._starting: list[StreamingQuery] = []

    def start(self, begin: Callable[[], StreamingQuery]) -> StreamingQuery:
        """Wait until fewer queries are starting, or `WAIT_SECONDS` have passed, then start this one."""
        until = time.monotonic() + WAIT_SECONDS
        while not self._take_turn(time.monotonic() >= until):
            time.sleep(_POLL_SECONDS)
        try:
            query = begin()
        except BaseException:
            self._end_turn()
            raise
        self._end_turn(query)
        return query

    def _take_turn(self, is_late: bool) -> bool:
        with self._lock:
            self._starting = [query for query in self._starting if _is_initializing(query)]
            if len(self._starting) + self._beginning >= self._at_once and not is_late:
                return False
            self._beginning += 1
            return True

    def _end_turn(self, *begun: StreamingQuery) -> None:
        with self._lock:
            self._beginning -= 1
            self._starting += begun


class RunningQueries:
    """The running streaming queries. ``begin`` starts one; a restarted query continues from its checkpoint."""

    def __init__(self, begin: Callable[[QueryPlan], StreamingQuery], limiter: StartLimiter) -> None:
        self._begin, self._limiter = begin, limiter
        self._queries: dict[str, tuple[QueryPlan, StreamingQuery]] = {}
        self._starts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[QueryPlan, StreamingQuery]]:
        return iter(list(self._queries.values()))

    @property
    def are_active(self) -> bool:
        """Whether any query is running."""
        return any(query.isActive for _, query in self)

    def start(self, plan: QueryPlan) -> None:
        """Start a query. Raises what Spark raises."""
        self._starts[plan.name] += 1
        self._queries[plan.name] = plan, self._limiter.start(lambda: self._begin(plan))

    def try_restart(self, plan: QueryPlan, error: BaseException) -> bool:
        """Restart a query whose Python processes started too slowly; False if it failed for another reason, or too often."""
        if SLOW_START not in str(error) or self._starts[plan.name] >= MAX_STARTS:
            return False
        log.warning("query %r: a Python process took more than 10 s to start; the query is started again", plan.name)
        self.start(plan)
        return True


def _is_initializing(query: StreamingQuery) -> bool:
    """Whether its sources' processes may still be starting."""
    return query.isActive and query.status["message"].startswith("Initializing")
