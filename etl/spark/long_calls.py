"""Calls of sources that do not return, which the process that plans micro-batches leaves in a file for the driver to report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from etl.api import ComponentError
from etl.delivery.driver_calls import DriverCall
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import read_json, write_json

WRITE_SECONDS = 2.0
"""Seconds between two writes of a call that goes on."""

STALE_SECONDS = 15.0
"""Seconds after which a file is that of a process that has ended."""


@dataclass(frozen=True)
class PlannerCall:
    """A call in another process."""

    what: str
    began: float
    """Seconds since the epoch."""
    where: str = field(compare=False)
    may_be_long = True
    """A source may list very many files or objects."""

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.time() - self.began

    def location(self) -> str:
        """Where its code was when it was written."""
        return self.where


@dataclass
class LongCallFile:
    """The planner's part: the file of one read of a query."""

    path: Path
    _due: float = 0.0
    _call: DriverCall | None = None
    _began: float = 0.0

    def note(self, call: DriverCall | None) -> None:
        """Write a call that goes on, or that it has ended."""
        now = time.monotonic()
        with suppress(ComponentError, OSError):  # a full disk is reported elsewhere
            if call is None:
                self._due = 0.0
                self.path.unlink(missing_ok=True)
            elif now >= self._due:
                self._due = now + WRITE_SECONDS
                if call is not self._call:  # by it the driver knows the call again
                    self._call, self._began = call, time.time() - call.seconds
                values = {"what": call.what, "began": self._began, "where": call.location()}
                write_json(self.path, {**values, "written": time.time()})


def long_call_file(state: StateFolder, query: str, number: int) -> Path:
    """The file of a read of a query."""
    return state.query(query) / f"long-call-{number}.json"


def read_long_calls(state: StateFolder, queries: Iterable[str]) -> Iterator[PlannerCall]:
    """The calls that go on in the planners of queries."""
    for query in queries:
        for path in sorted(state.query(query).glob("long-call-*.json")):
            with suppress(ComponentError, KeyError, TypeError):
                found = read_json(path)
                if found is not None and time.time() - found["written"] < STALE_SECONDS:
                    yield PlannerCall(found["what"], found["began"], found["where"])
