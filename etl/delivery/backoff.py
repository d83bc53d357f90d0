"""Exponential backoff with full jitter between attempts: it logs a notice for each failure, and stops with the run."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa

from etl.api import EtlError, Rejects, Retry, RetryAfterError
from etl.delivery.notices import Notice

log = logging.getLogger("sluice.waiting")

POLL_SECONDS = 0.1
"""Seconds between two checks whether the run is to stop."""

T = TypeVar("T")

Batch: TypeAlias = "pa.RecordBatch | Rejects"

DEFAULT_RETRY = Retry()
"""Pauses for subjects without an option ``retry``."""


class RunStopping(EtlError):  # noqa: N818
    """The run was asked to stop during a backoff; the next run does the work."""


@dataclass(frozen=True)
class StopFile:
    """A file in the state folder that asks the run to stop; workers and the process that plans splits see it too."""

    path: Path | None = None

    def __call__(self) -> bool:
        """Whether the run is to stop."""
        return self.path is not None and self.path.exists()


NEVER_STOPS = StopFile()


@dataclass
class Backoff:
    """The backoff for one ``subject``, such as ``source 'log'``.

    A pause is a random time up to a limit, which doubles with each failure from ``retry.initial_backoff`` to
    ``retry.max_backoff``.
    """

    subject: str
    is_stopping: Callable[[], bool] = lambda: False
    retry: Retry = DEFAULT_RETRY
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    tries: int = field(default=0, init=False)
    """Failed attempts in a row."""
    _since: float = field(default=0.0, init=False)

    def wait(self, cause: object, min_seconds: float = 0.0) -> None:
        """Log a notice and pause, for at least ``min_seconds`` but at most ``retry.max_backoff``. Raises RunStopping.

        ``cause`` is the error or text of the failed attempt.
        """
        self._since = self._since if self.tries else self.clock()
        self.tries += 1
        pause = max(random.uniform(0, self.max_pause_seconds), min(min_seconds, self.retry.max_backoff.total_seconds()))
        notice = Notice(self.subject, str(cause) or type(cause).__name__, self.tries, self.clock() - self._since, pause)
        log.warning("%s", notice, extra={"notice": notice})
        self._pause(pause)

    @property
    def max_pause_seconds(self) -> float:
        """Upper limit of the next pause, in seconds."""
        return self.retry.max_pause_seconds(self.tries)

    def succeeded(self) -> None:
        """Reset after a successful attempt; logs that the subject works again."""
        if self.tries:
            notice = Notice(self.subject, "", self.tries, self.clock() - self._since)
            log.warning("%s", notice, extra={"notice": notice})
        self.tries = 0

    def retry_until_done(self, attempt: Callable[[], T], attempts: int | None = None) -> T:
        """Return what ``attempt`` returns; retry after each OSError. Raises the error of the last of ``attempts`` tries."""
        while True:
            try:
                done = attempt()
            except OSError as error:
                if attempts is not None and self.tries + 1 >= attempts:
                    raise
                self.wait(error, error.seconds if isinstance(error, RetryAfterError) else 0.0)
            else:
                self.succeeded()
                return done

    def _pause(self, seconds: float) -> None:
        left = seconds
        while left > 0 and not self.is_stopping():
            self.sleep(min(left, POLL_SECONDS))
            left -= POLL_SECONDS
        if self.is_stopping():
            raise RunStopping(f"the run stops while {self.subject} does not answer; the next run goes on from here")


def read_with_retries(read: Callable[[], Iterator[Batch]], backoff: Backoff) -> Iterator[Batch]:
    """Yield a split's events; after an OSError read the split again and skip the events already yielded.

    Correct because the same split always has the same events.
    """
    events, refused = 0, 0
    while True:
        skip, skip_refused = events, refused
        try:
            for batch in read():
                backoff.succeeded()
                if isinstance(batch, Rejects):
                    rest = _rejects_after(batch, skip_refused)
                    skip_refused = max(0, skip_refused - batch.events.num_rows)
                    refused += rest.events.num_rows
                    if rest.events.num_rows:
                        yield rest
                else:
                    remaining = batch.slice(min(skip, batch.num_rows)) if skip else batch
                    skip -= batch.num_rows - remaining.num_rows
                    events += remaining.num_rows
                    if remaining.num_rows or not batch.num_rows:
                        yield remaining
            return
        except OSError as error:
            backoff.wait(error)


def _rejects_after(rejects: Rejects, skip: int) -> Rejects:
    if not skip:
        return rejects
    reasons = rejects.reasons if isinstance(rejects.reasons, str) else rejects.reasons.slice(skip)
    return Rejects(rejects.events.slice(min(skip, rejects.events.num_rows)), rejects.code, reasons)
