"""The look-up tables of a run: built before it starts, and refreshed while it follows its sources."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from etl.api import EtlError
from etl.delivery.driver_calls import DriverCalls, HungCallError
from etl.spark.reports.step_measures import TableInUse
from etl.spark.startup import fast_start

if TYPE_CHECKING:
    from etl.tables.build_process import BuildResult
    from etl.tables.table_store import TableRequest

Show = Callable[[str, str], None]
"""A level (``info`` or ``warning``) and a text for the user."""


@contextmanager
def refreshed_tables(
    requests: Mapping[str, TableRequest],
    root: Path,
    follows: bool,
    show: Show,
    in_use: dict[str, TableInUse] | None = None,
    calls: DriverCalls | None = None,
) -> Iterator[None]:
    """Build the tables that steps request; with ``follows``, refresh them while the body runs, as their options say.

    ``in_use`` gets the state of each table by name, ``calls`` what is being read. Raises EtlError when a table without an earlier
    version cannot be read.
    """
    reporter = _TableReporter(root, show, {} if in_use is None else in_use, calls or DriverCalls())
    for result in _build_tables(list(requests.values()), reporter) if requests else ():
        if result.error and result.version is None and not _has_earlier_version(result, requests, root):
            raise EtlError(f"table {result.name!r}: {result.error}")
        reporter.report(result)
    refreshed = [one for one in requests.values() if one.table.refresh is not None] if follows else []
    if not refreshed:
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_refresh_when_due, args=(refreshed, reporter, done), name="tables", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


def _build_tables(requests: Sequence[TableRequest], reporter: _TableReporter) -> Iterator[BuildResult]:
    """Build tables; the import is here because it loads the compiler of kernels."""
    from etl.tables.build_process import build_tables

    return build_tables(requests, reporter.root, fast_start.forking_program(), partial(_receive, reporter.calls))


def _receive(calls: DriverCalls, request: TableRequest, call: Callable[[], BuildResult], kill: Callable[[], None]) -> BuildResult:
    """The result of a build, also where it hangs and is interrupted: then its process is killed."""
    from etl.tables.build_process import BuildResult

    try:
        return calls.run(f"the reading of table {request.name!r} ({request.table.type})", call, kill, may_be_long=True)
    except HungCallError as error:
        return BuildResult(request.name, error=str(error), is_temporary=True)


def _has_earlier_version(result: BuildResult, requests: Mapping[str, TableRequest], root: Path) -> bool:
    """Whether a table that cannot be read now has a usable version of an earlier run, for each request."""
    from etl.tables.table_store import has_usable_version

    return all(has_usable_version(root / one.id) for one in requests.values() if one.name == result.name)


def _refresh_when_due(requests: Sequence[TableRequest], reporter: _TableReporter, done: threading.Event) -> None:
    due = {one.id: time.monotonic() + _refresh_seconds(one) for one in requests}
    while not done.wait(max(0.0, min(due.values()) - time.monotonic())):
        now = [one for one in requests if due[one.id] <= time.monotonic()]
        for result in _build_tables(now, reporter):
            reporter.report(result)
        due |= {one.id: time.monotonic() + _refresh_seconds(one) for one in now}


def _refresh_seconds(one: TableRequest) -> float:
    assert one.table.refresh is not None
    return one.table.refresh.total_seconds()


@dataclass
class _TableReporter:
    """Reports the results of builds to the user, and records them in ``in_use``."""

    root: Path
    show: Show
    in_use: dict[str, TableInUse]
    calls: DriverCalls = field(default_factory=DriverCalls)
    _shown_errors: dict[str, str] = field(default_factory=dict)
    """Table → the error shown for it, while it cannot be read: each is shown once."""
    _shown_counts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Messages shown last for tables without versions, which are built at each refresh: equal ones are not repeated."""

    def report(self, result: BuildResult) -> None:
        """Report and record a result."""
        name = result.name
        self._record(result)
        if result.error and self._shown_errors.get(name) == result.error:
            return
        if name in self._shown_errors and not result.error:
            self.show("info", f"table {name!r} can be read again")
        self._shown_errors.pop(name, None)
        if result.error:
            self._shown_errors[name] = result.error
        words = list(_messages(result))
        again = result.version is not None and result.version.version is None and self._shown_counts.get(name) == words
        for level, text in () if again else words:
            self.show(level, f"table {name!r}{text}")
        self._shown_counts[name] = words

    def _record(self, result: BuildResult) -> None:
        known = self.in_use.setdefault(result.name, TableInUse())
        known.error = result.error
        if result.error:
            known.failed += 1
        elif result.version is not None:
            known.version = result.version.version or Path(result.version.file).stem
            known.rows, known.built, known.checked = result.version.what.rows, result.version.built, time.time()


def _messages(result: BuildResult) -> Iterator[tuple[str, str]]:
    """Pairs of level and message; the table's name becomes their prefix."""
    for text in result.notices:
        yield "warning", f": {text}"
    if result.error:
        yield "warning", f" cannot be read, the earlier version stays in use: {result.error}"
    elif result.is_new and result.version is not None:
        what = result.version.what
        parts = [f"{what.rows:,} row{'' if what.rows == 1 else 's'}"]
        parts += [f"{what.again:,} more with a key that came before"] if what.again else []
        first = f" (the first: {what.first})" if what.first else ""
        parts += [f"{what.missing:,} without a key that can be read left out{first}"] if what.missing else []
        since = result.version.since
        parts += [f"{since.read:,} read for this version"] if since is not None and since.read is not None else []
        yield "warning" if what.missing else "info", f": {', '.join(parts)}"
