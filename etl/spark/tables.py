"""The look-up tables of a run: built before it starts, built again while it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from etl.api import EtlError
from etl.spark.measured import TableInUse

if TYPE_CHECKING:
    from etl.tables.build_process import BuildResult
    from etl.tables.table_store import TableRequest

Say = Callable[[str, str], None]
"""A level (``info`` or ``warning``) and a text for the user."""


@contextmanager
def kept(
    requests: Mapping[str, TableRequest], root: Path, follows: bool, say: Say, in_use: dict[str, TableInUse] | None = None
) -> Iterator[None]:
    """Build what the steps look up, and while the body runs, with ``follows``, build it again as each table says. What is
    used then is noted by the table's name.

    Raises EtlError when a table that was never read cannot be read.
    """
    keeper = _Keeper(root, say, {} if in_use is None else in_use)
    for result in _built(list(requests.values()), root) if requests else ():
        if result.error and result.version is None and not _usable(result, requests, root):
            raise EtlError(f"table {result.name!r}: {result.error}")
        keeper.take(result)
    refreshed = [one for one in requests.values() if one.table.refresh is not None] if follows else []
    if not refreshed:
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_refresh, args=(refreshed, keeper, done), name="tables", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


def _built(requests: Sequence[TableRequest], root: Path) -> Iterator[BuildResult]:
    """Loaded where there are tables: it brings the compiler of kernels."""
    from etl.tables.build_process import build_tables

    return build_tables(requests, root)


def _usable(result: BuildResult, requests: Mapping[str, TableRequest], root: Path) -> bool:
    """Whether every shape of a table that cannot be read now has been read by a run before."""
    from etl.tables.table_store import read_version

    return all(read_version(root / one.id) is not None for one in requests.values() if one.name == result.name)


def _refresh(requests: Sequence[TableRequest], keeper: _Keeper, done: threading.Event) -> None:
    due = {one.id: time.monotonic() + _seconds(one) for one in requests}
    while not done.wait(max(0.0, min(due.values()) - time.monotonic())):
        now = [one for one in requests if due[one.id] <= time.monotonic()]
        for result in _built(now, keeper.root):
            keeper.take(result)
        due |= {one.id: time.monotonic() + _seconds(one) for one in now}


def _seconds(one: TableRequest) -> float:
    assert one.table.refresh is not None
    return one.table.refresh.total_seconds()


@dataclass
class _Keeper:
    """Says and notes what became of tables."""

    root: Path
    say: Say
    in_use: dict[str, TableInUse]
    _said: dict[str, str] = field(default_factory=dict)
    """The error of each table that cannot be read now: it is said once."""
    _same: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Of tables that cannot tell whether they changed, and so are built each time: what was said last."""

    def take(self, result: BuildResult) -> None:
        """Another result."""
        name = result.name
        self._note(result)
        if result.error and self._said.get(name) == result.error:
            return
        if name in self._said and not result.error:
            self.say("info", f"table {name!r} can be read again")
        self._said.pop(name, None)
        if result.error:
            self._said[name] = result.error
        words = list(_words(result))
        again = result.version is not None and result.version.version is None and self._same.get(name) == words
        for level, text in () if again else words:
            self.say(level, f"table {name!r}{text}")
        self._same[name] = words

    def _note(self, result: BuildResult) -> None:
        known = self.in_use.setdefault(result.name, TableInUse())
        known.error = result.error
        if result.error:
            known.failed += 1
        elif result.version is not None:
            known.version = result.version.version or Path(result.version.file).stem
            known.rows, known.built, known.checked = result.version.what.rows, result.version.built, time.time()


def _words(result: BuildResult) -> Iterator[tuple[str, str]]:
    """Levels, and what is said behind the table's name."""
    for text in result.notices:
        yield "warning", f": {text}"
    if result.error:
        yield "warning", f" cannot be read, the version before stays in use: {result.error}"
    elif result.is_new and result.version is not None:
        what = result.version.what
        parts = [f"{what.rows:,} row{'' if what.rows == 1 else 's'}"]
        parts += [f"{what.again:,} more with a key that came before"] if what.again else []
        first = f" (the first: {what.first})" if what.first else ""
        parts += [f"{what.missing:,} without a key that can be read left out{first}"] if what.missing else []
        since = result.version.since
        parts += [f"{since.read:,} read for this version"] if since is not None and since.read is not None else []
        yield "warning" if what.missing else "info", f": {', '.join(parts)}"
