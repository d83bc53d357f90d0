"""What only the package ``regex`` can do, look-around and back-references: it backtracks, a text at a time, in limited time."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

SECONDS = 0.1
"""For one text; one that takes longer does not match."""

FEW, FEW_SECONDS = 10, 0.001
"""Texts that may take so long; each further one has less time."""

GRANTED, SHARE = 2.0, 0.1
"""Seconds that texts which take too long may take in all, and their part of the time since the first of them. Beyond it a pattern
is not tried: whoever sends such texts could hold the stream up, and so silences the pattern only for as long as they come."""

KEPT = 4096
"""Patterns that a process keeps compiled, about 10 kB each."""


@dataclass
class _Ran:
    """A pattern that ran away."""

    since: float = field(default_factory=time.monotonic)
    late: int = 0
    spent: float = 0.0
    rested: bool = False

    def is_spent(self) -> bool:
        return self.spent > GRANTED + SHARE * (time.monotonic() - self.since)


_ran: dict[str, _Ran] = {}


def found(pattern: str, texts: Iterator[str | None], log: logging.Logger) -> Iterator[bool]:
    """Whether each text has it; ``log`` is told when the pattern runs away, and when it is not tried."""
    compiled, ran = _compiled(pattern), _ran.get(pattern)
    for text in texts:
        if text is None:
            yield False
            continue
        if ran is not None and ran.is_spent():
            if not ran.rested:
                ran.rested = True
                log.warning(
                    "the pattern %.200r took too long for %d texts: it is tried on fewer while they come", pattern, ran.late
                )
            yield False
            continue
        limit = SECONDS if ran is None or ran.late < FEW else FEW_SECONDS
        try:
            yield compiled.search(text, timeout=limit) is not None
        except TimeoutError:
            ran = ran or _ran.setdefault(pattern, _Ran())
            ran.late += 1
            ran.spent += limit
            _tell(pattern, ran.late, log)
            yield False


def _tell(pattern: str, late: int, log: logging.Logger) -> None:
    if late == 1:
        log.warning("the pattern %.200r takes longer than %g s for a text: it does not match such texts", pattern, SECONDS)
    elif late == FEW:
        log.warning("the pattern %.200r took too long for %d texts: from now on each has %g s", pattern, FEW, FEW_SECONDS)


@lru_cache(maxsize=KEPT)
def _compiled(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)
