"""Answers for many viewers: one serves all who ask for the same.

Pages and taps ask again and again. As long as they are few, each gets a fresh answer. Above `FREE_PER_SECOND` requests a second
an answer serves all requests for the same path and query of a second, or of a quarter of the pause between two requests of a
viewer (`etl.server.boards.viewer_turns`) where that is longer. A request whose head was answered before, byte for byte, gets it
without the application: the head says the same, and only whether its token still holds is checked again.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from etl.server.boards.viewer_turns import ViewerTurns

FREE_PER_SECOND = 20
"""Requests a second up to which each is answered on its own."""

SHARE_SECONDS = 1.0
"""Seconds for which an answer serves further requests, at least."""

SHARE_OF_PAUSE = 0.25
"""The same as a part of the pause of a viewer."""

MAX_ANSWERS = 64
"""Answers that are kept at the same time."""

MAX_HEADS = 512
"""Heads of requests that are kept."""

MAX_HEAD_BYTES = 4096
"""Longer heads are not kept."""

_HEAD = re.compile(
    rb"""
    GET\ [^\r\n]+\ HTTP/1\.1\r\n
    (?: (?! content-length | transfer-encoding | expect | upgrade | connection: (?! [\ \t]* keep-alive\r ) ) \S[^\r\n]*\r\n )*
    \r\n
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""The whole head of one request without a body, after which the connection goes on as HTTP/1.1."""


@dataclass(frozen=True)
class _Answer:
    began: float
    task: asyncio.Future[bytes]


@dataclass(frozen=True)
class KnownRequest:
    """What a request with a known head asks for, from whatever address it comes."""

    key: str
    """Path and query."""
    token: str
    """Its token; empty without one."""
    is_allowed: Callable[[], bool]
    """Whether the client may still have the answer."""


class SharedAnswers:
    """The last answers. All methods are called in the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.turns = ViewerTurns()
        self._clock = clock
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._known: OrderedDict[bytes, KnownRequest] = OrderedDict()
        self._second, self._count = clock(), 0
        self._rate = 0.0
        """Requests a second, of the last full second."""

    async def get(self, key: str, compute: Callable[[], Awaitable[bytes]]) -> bytes:
        """The answer for a key: computed now, or just before for another viewer. Raises what ``compute`` raises."""
        now = self._clock()
        self._note(now)
        if not self._is_shared():
            return await compute()
        self._drop_old(now)
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = _Answer(now, asyncio.ensure_future(compute()))
        return await asyncio.shield(known.task)  # a viewer who goes away takes it from no other

    def forget(self) -> None:
        """Something was changed: answers from before are not given any more."""
        self._answers.clear()

    # ── Requests that come again ──────────────────────────────────────────────────────────────────

    def remember(self, head: bytes, request: KnownRequest) -> None:
        """Answer further requests with this head at once, if it may be."""
        if head in self._known or len(head) > MAX_HEAD_BYTES or not _HEAD.fullmatch(head):
            return
        self._known[head] = request
        while len(self._known) > MAX_HEADS:
            self._known.popitem(last=False)

    def find(self, head: bytes) -> tuple[KnownRequest, bytes] | None:
        """The answer to a request with a known head, where there is one that others have got."""
        request = self._known.get(head)
        if request is None or not self._is_shared():
            return None
        now = self._clock()
        self._drop_old(now)
        known = self._answers.get(request.key)
        if known is None or not known.task.done() or known.task.cancelled() or known.task.exception() is not None:
            return None
        if not request.is_allowed():
            return None
        self._known.move_to_end(head)
        self._note(now)
        return request, known.task.result()

    # ── Counting ──────────────────────────────────────────────────────────────────────────────────

    def _is_shared(self) -> bool:
        """Whether there are enough viewers or requests for them to share answers."""
        return self.turns.longest_pause > 0 or max(self._rate, self._count) > FREE_PER_SECOND

    def _note(self, now: float) -> None:
        """Count a request."""
        elapsed = now - self._second
        if elapsed >= 1.0:
            self._rate, self._second, self._count = self._count / elapsed, now, 0
        self._count += 1

    def _drop_old(self, now: float) -> None:
        seconds = max(SHARE_SECONDS, SHARE_OF_PAUSE * self.turns.longest_pause)
        while self._answers:
            key, oldest = next(iter(self._answers.items()))
            if now - oldest.began < seconds and len(self._answers) < MAX_ANSWERS:
                return
            del self._answers[key]
