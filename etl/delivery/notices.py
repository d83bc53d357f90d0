"""Notices: messages about failures that a run retries, and the limiter that decides how often they are shown."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

REPEAT_SECONDS = 60.0
"""Seconds after which a notice about a lasting failure is repeated; doubles with each repetition."""

MAX_REPEAT_SECONDS = 3600.0
"""Longest time in seconds between two repetitions."""

DUPLICATE_SECONDS = 10.0
"""Seconds in which the same text from another process is a duplicate: two workers found the same bad file."""

MAX_REMEMBERED_TEXTS = 256
"""Number of recent texts that are compared."""

MIN_OUTAGE_SECONDS = 2.0
"""The end of a failure that lasted fewer seconds is not shown."""

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_UNITS = ((86400, "day"), (3600, "h"), (60, "min"))


@dataclass(frozen=True)
class Notice:
    """A task waits for ``subject`` because of ``cause``; an empty ``cause`` says that the subject works again."""

    subject: str
    cause: str
    tries: int
    seconds: float
    """Seconds since the first failed attempt."""
    pause: float = 0.0
    """Seconds until the next attempt."""

    def __str__(self) -> str:
        if not self.cause:
            return f"{self.subject}: works again after {format_duration(self.seconds)}"
        since = f", since {format_duration(self.seconds)}" if self.tries > 1 else ""
        return f"{self.subject}: {self.cause}; trying again in {format_duration(self.pause)} ({ordinal(self.tries)} time{since})"

    def as_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)


@dataclass
class NoticeLimiter:
    """Decides which notices are shown: each new cause at once, a lasting one at growing intervals, whichever process sends it."""

    clock: Callable[[], float] = time.monotonic
    _repetitions: dict[str, _Repetition] = field(default_factory=dict)
    _recent_texts: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Text → the process that sent it last, and when (seconds of ``clock``)."""

    def is_duplicate(self, text: str, process: int) -> bool:
        """Whether another process sent the same text within `DUPLICATE_SECONDS`. Records the text."""
        speaker, at = self._recent_texts.pop(text, (process, 0.0))
        if speaker != process and self.clock() - at < DUPLICATE_SECONDS:
            self._recent_texts[text] = speaker, at
            return True
        self._recent_texts[text] = process, self.clock()
        if len(self._recent_texts) > MAX_REMEMBERED_TEXTS:
            del self._recent_texts[next(iter(self._recent_texts))]
        return False

    def should_show(self, notice: Notice) -> bool:
        """Whether to show this notice now. Records the decision."""
        known, now = self._repetitions.get(notice.subject), self.clock()
        if not notice.cause:
            return known is not None and notice.seconds >= MIN_OUTAGE_SECONDS and known.ends()
        cause = _NUMBERS.sub("#", notice.cause)
        if known is None or known.cause != cause:
            self._repetitions[notice.subject] = _Repetition(cause, now, REPEAT_SECONDS)
            return True
        known.lasts = True
        return known.is_due(now)


@dataclass
class _Repetition:
    """When a cause was last shown, and when it may be shown again."""

    cause: str
    at: float
    pause: float
    lasts: bool = True

    def is_due(self, now: float) -> bool:
        """Whether the cause is to be shown again."""
        if now - self.at < self.pause:
            return False
        self.at, self.pause = now, min(self.pause * 2, MAX_REPEAT_SECONDS)
        return True

    def ends(self) -> bool:
        """Whether to show that the failure ended: once. The same cause soon afterwards is not shown at once."""
        lasted, self.lasts = self.lasts, False
        return lasted


def ordinal(number: int) -> str:
    """4 → ``4th``."""
    ending = "th" if 10 < number % 100 < 20 else _ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"


def format_duration(seconds: float) -> str:
    """83 → ``1 min``; below a minute in seconds, below ten with a digit after the point."""
    for size, unit in _UNITS:
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}" if unit != "day" or number == 1 else f"{number} days"
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
