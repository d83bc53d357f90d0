"""Troubles that a run waits out, as values that travel through logs, and how often they are told of."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

AGAIN_SECONDS = 60.0
"""After how long a trouble that goes on is told of again; the pause doubles each time."""

MOST_SECONDS = 3600.0

ECHO_SECONDS = 10.0
"""A message that another process sends again in this time says the same of the same: two workers opened one bad file."""

MOST_ECHOES = 256
"""Texts that are remembered."""

SHORT_SECONDS = 2.0
"""A trouble that is over sooner ends without a word."""

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_UNITS = ((86400, "day"), (3600, "h"), (60, "min"))


@dataclass(frozen=True)
class Trouble:
    """Something waits for ``about``; without a ``cause`` it waits no more."""

    about: str
    cause: str
    tries: int
    seconds: float
    """Since the first failed try."""
    pause: float = 0.0
    """Until the next."""

    def __str__(self) -> str:
        if not self.cause:
            return f"{self.about}: works again after {spell(self.seconds)}"
        since = f", since {spell(self.seconds)}" if self.tries > 1 else ""
        return f"{self.about}: {self.cause}; trying again in {spell(self.pause)} ({ordinal(self.tries)} time{since})"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass
class Rarely:
    """Which troubles are worth a line: each change, and now and then one that goes on. Several processes report the same."""

    clock: Callable[[], float] = time.monotonic
    _told: dict[str, _Told] = field(default_factory=dict)
    _texts: dict[str, tuple[int, float]] = field(default_factory=dict)
    """What was told last, by which process, and when."""

    def is_echo(self, text: str, process: int) -> bool:
        """Whether another process has just said the same; it is remembered."""
        speaker, at = self._texts.pop(text, (process, 0.0))
        if speaker != process and self.clock() - at < ECHO_SECONDS:
            self._texts[text] = speaker, at
            return True
        self._texts[text] = process, self.clock()
        if len(self._texts) > MOST_ECHOES:
            del self._texts[next(iter(self._texts))]
        return False

    def worth_telling(self, trouble: Trouble) -> bool:
        """Decide, and remember."""
        known, now = self._told.get(trouble.about), self.clock()
        if not trouble.cause:
            return known is not None and trouble.seconds >= SHORT_SECONDS and known.ends()
        cause = _NUMBERS.sub("#", trouble.cause)
        if known is None or known.cause != cause:
            self._told[trouble.about] = _Told(cause, now, AGAIN_SECONDS)
            return True
        known.lasts = True
        return known.again(now)


@dataclass
class _Told:
    """A trouble that was told of."""

    cause: str
    at: float
    pause: float
    lasts: bool = True

    def again(self, now: float) -> bool:
        """Whether it is time to tell of it again."""
        if now - self.at < self.pause:
            return False
        self.at, self.pause = now, min(self.pause * 2, MOST_SECONDS)
        return True

    def ends(self) -> bool:
        """It works again; the same trouble soon after is not told of at once."""
        lasted, self.lasts = self.lasts, False
        return lasted


def ordinal(number: int) -> str:
    """4 → ``4th``."""
    ending = "th" if 10 < number % 100 < 20 else _ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"


def spell(seconds: float) -> str:
    """83 → ``1 min``; below a minute in seconds, below ten with a digit behind the point."""
    for size, unit in _UNITS:
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}" if unit != "day" or number == 1 else f"{number} days"
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
