"""Waiting for what is down: pauses that grow, with full jitter, told of on the way, and ended by the run's end."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa

from etl.api import EtlError, Rejects, Retry
from etl.delivery.told import Trouble

log = logging.getLogger("sluice.waiting")

LOOK_SECONDS = 0.1
"""How often who waits looks whether the run ends."""

T = TypeVar("T")

Batch: TypeAlias = "pa.RecordBatch | Rejects"

ALWAYS = Retry()
"""Pauses where no sink says otherwise."""


class RunEnds(EtlError):  # noqa: N818
    """The run is to end while something still waits; what it waited with is left to the next run."""


@dataclass(frozen=True)
class Ending:
    """Whether the run is to end: a file in the state folder, which workers and the planning process see, too."""

    path: Path | None = None

    def __call__(self) -> bool:
        """Look."""
        return self.path is not None and self.path.exists()


NEVER = Ending()


@dataclass
class Patience:
    """One thing that is waited for: ``about`` names it, such as ``source 'log'``.

    A pause is a random time up to a limit that doubles with each, from ``retry.initial_backoff`` to ``retry.max_backoff``.
    """

    about: str
    ending: Callable[[], bool] = lambda: False
    retry: Retry = ALWAYS
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    tries: int = field(default=0, init=False)
    """Failed ones in a row."""
    _since: float = field(default=0.0, init=False)

    def wait(self, cause: object, least: float = 0.0) -> None:
        """Pause after a failed try, and not for less than ``least`` seconds unless that is too long. Raises RunEnds when the
        run is to end."""
        self._since = self._since if self.tries else self.clock()
        self.tries += 1
        pause = max(random.uniform(0, self.longest), min(least, self.retry.max_backoff.total_seconds()))
        trouble = Trouble(self.about, str(cause) or type(cause).__name__, self.tries, self.clock() - self._since, pause)
        log.warning("%s", trouble, extra={"trouble": trouble})
        self._pause(pause)

    @property
    def longest(self) -> float:
        """Seconds that the next pause takes at most."""
        doubled = self.retry.initial_backoff.total_seconds() * 2.0 ** min(self.tries - 1, 60)
        return min(doubled, self.retry.max_backoff.total_seconds())

    def over(self) -> None:
        """It worked."""
        if self.tries:
            trouble = Trouble(self.about, "", self.tries, self.clock() - self._since)
            log.warning("%s", trouble, extra={"trouble": trouble})
        self.tries = 0

    def until(self, attempt: Callable[[], T]) -> T:
        """What ``attempt`` returns, tried again after every OSError."""
        while True:
            try:
                done = attempt()
            except OSError as error:
                self.wait(error)
            else:
                self.over()
                return done

    def _pause(self, seconds: float) -> None:
        left = seconds
        while left > 0 and not self.ending():
            self.sleep(min(left, LOOK_SECONDS))
            left -= LOOK_SECONDS
        if self.ending():
            raise RunEnds(f"the run ends while {self.about} is waited for; the next one goes on from here")


def patiently(read: Callable[[], Iterator[Batch]], patience: Patience) -> Iterator[Batch]:
    """A split's events, read again after an OSError without those that came before: the same split gives the same events."""
    events, refused = 0, 0
    while True:
        skip, skip_refused = events, refused
        try:
            for batch in read():
                patience.over()
                if isinstance(batch, Rejects):
                    rest = _refused_behind(batch, skip_refused)
                    skip_refused = max(0, skip_refused - batch.events.num_rows)
                    refused += rest.events.num_rows
                    if rest.events.num_rows:
                        yield rest
                else:
                    behind = batch.slice(min(skip, batch.num_rows)) if skip else batch
                    skip -= batch.num_rows - behind.num_rows
                    events += behind.num_rows
                    if behind.num_rows or not batch.num_rows:
                        yield behind
            return
        except OSError as error:
            patience.wait(error)


def _refused_behind(rejects: Rejects, skip: int) -> Rejects:
    if not skip:
        return rejects
    reasons = rejects.reasons if isinstance(rejects.reasons, str) else rejects.reasons.slice(skip)
    return Rejects(rejects.events.slice(min(skip, rejects.events.num_rows)), rejects.code, reasons)
