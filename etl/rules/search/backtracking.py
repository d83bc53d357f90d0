"""Regular expressions with look-around and back-references: the package ``regex`` runs them, text by text, in limited time."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

SECONDS = 0.1
"""Time limit for one text; a text that takes longer does not match."""

FEW, FEW_SECONDS = 10, 0.001
"""Number of slow texts with that limit, and the limit for each further one."""

GRANTED, SHARE = 2.0, 0.1
"""Seconds that slow texts may take in all, plus this part of the time since the first of them. After that the pattern is not
tested until time has passed: whoever sends slow texts cannot stop the stream, and disables the pattern only meanwhile."""

CACHED = 4096
"""Compiled patterns in a process, about 10 kB each."""


@dataclass
class _SlowPattern:
    """A pattern that has reached a time limit."""

    since: float = field(default_factory=time.monotonic)
    slow_texts: int = 0
    spent: float = 0.0
    is_reported: bool = False
    """Whether a message says that it is not tested on all texts."""

    def is_suspended(self) -> bool:
        return self.spent > GRANTED + SHARE * (time.monotonic() - self.since)


_slow: dict[str, _SlowPattern] = {}


def search_texts(pattern: str, texts: Iterator[str | None], log: logging.Logger) -> Iterator[bool]:
    """Whether each text has a match. Logs when the pattern is slow, and when it is not tested."""
    compiled, slow = _compile(pattern), _slow.get(pattern)
    for text in texts:
        if text is None:
            yield False
            continue
        if slow is not None and slow.is_suspended():
            if not slow.is_reported:
                slow.is_reported = True
                log.warning(
                    "the pattern %.200r took too long for %d texts: it is tried on fewer while they come",
                    pattern,
                    slow.slow_texts,
                )
            yield False
            continue
        limit = SECONDS if slow is None or slow.slow_texts < FEW else FEW_SECONDS
        try:
            yield compiled.search(text, timeout=limit) is not None
        except TimeoutError:
            slow = slow or _slow.setdefault(pattern, _SlowPattern())
            slow.slow_texts += 1
            slow.spent += limit
            _log_slow(pattern, slow.slow_texts, log)
            yield False


def _log_slow(pattern: str, slow_texts: int, log: logging.Logger) -> None:
    if slow_texts == 1:
        log.warning("the pattern %.200r takes longer than %g s for a text: it does not match such texts", pattern, SECONDS)
    elif slow_texts == FEW:
        log.warning("the pattern %.200r took too long for %d texts: from now on each has %g s", pattern, FEW, FEW_SECONDS)


@lru_cache(maxsize=CACHED)
def _compile(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)
