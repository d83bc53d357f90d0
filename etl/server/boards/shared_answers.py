"""What many viewers cost a server: one answer for all who ask for the same, and longer pauses between their requests.

Pages and taps ask again and again. As long as they are few, each gets a fresh answer. Above `FREE_PER_SECOND` requests a second
an answer serves all requests for the same path and query of a second. And each answer says in the header `POLL_AFTER` when the
next request of its viewer has its turn: turns are 1 / `TURNS_PER_SECOND` apart, however many viewers there are.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

POLL_AFTER = "Poll-After"
"""The header of an answer: seconds that a viewer waits at least; shorter than its usual pause while viewers are few."""

FREE_PER_SECOND = 20
"""Requests a second up to which each is answered on its own."""

TURNS_PER_SECOND = 20
"""Requests a second of all viewers together: about two hundredths of a core."""

MAX_PAUSE_SECONDS = 30.0
"""The longest pause."""

SHARE_SECONDS = 1.0
"""Seconds for which an answer serves further requests."""

MAX_ANSWERS = 64
"""Answers that are kept at the same time."""


@dataclass(frozen=True)
class _Answer:
    began: float
    task: asyncio.Future[bytes]


class SharedAnswers:
    """The answers of the last second. All methods are called in the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._second, self._count = clock(), 0
        self._rate = 0.0
        """Requests a second, of the last full second."""
        self._turn = clock()
        """When the next turn is free."""

    async def get(self, key: str, compute: Callable[[], Awaitable[bytes]]) -> bytes:
        """The answer for a key: computed now, or within the last second for another viewer. Raises what ``compute`` raises."""
        now = self._clock()
        self._note(now)
        if max(self._rate, self._count) <= FREE_PER_SECOND:
            return await compute()
        self._drop_old(now)
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = _Answer(now, asyncio.ensure_future(compute()))
        return await asyncio.shield(known.task)  # a viewer who goes away takes it from no other

    def forget(self) -> None:
        """Something was changed: answers from before are not given any more."""
        self._answers.clear()

    def take_turn(self) -> float:
        """The seconds until the next free turn, which is taken then."""
        now = self._clock()
        turn = min(max(self._turn, now), now + MAX_PAUSE_SECONDS)
        self._turn = turn + 1 / TURNS_PER_SECOND
        return turn - now

    def _note(self, now: float) -> None:
        """Count a request."""
        elapsed = now - self._second
        if elapsed >= 1.0:
            self._rate, self._second, self._count = self._count / elapsed, now, 0
        self._count += 1

    def _drop_old(self, now: float) -> None:
        while self._answers:
            key, oldest = next(iter(self._answers.items()))
            if now - oldest.began < SHARE_SECONDS and len(self._answers) < MAX_ANSWERS:
                return
            del self._answers[key]
