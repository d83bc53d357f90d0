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
    from etl.tables.building import Answer
    from etl.tables.store import Wanted

Say = Callable[[str, str], None]
"""A level (``info`` or ``warning``) and a text for the user."""


@contextmanager
def kept(
    wanted: Mapping[str, Wanted], root: Path, follows: bool, say: Say, in_use: dict[str, TableInUse] | None = None
) -> Iterator[None]:
    """Build what the steps look up, and while the body runs, with ``follows``, build it again as each table says. What is
    used then is noted by the table's name.

    Raises EtlError when a table that was never read cannot be read.
    """
    keeper = _Keeper(root, say, {} if in_use is None else in_use)
    for answer in _built(list(wanted.values()), root) if wanted else ():
        if answer.error and answer.current is None and not _usable(answer, wanted, root):
            raise EtlError(f"table {answer.name!r}: {answer.error}")
        keeper.take(answer)
    refreshed = [one for one in wanted.values() if one.table.refresh is not None] if follows else []
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


def _built(wanted: Sequence[Wanted], root: Path) -> Iterator[Answer]:
    """Loaded where there are tables: it brings the compiler of kernels."""
    from etl.tables.building import built

    return built(wanted, root)


def _usable(answer: Answer, wanted: Mapping[str, Wanted], root: Path) -> bool:
    """Whether every shape of a table that cannot be read now has been read by a run before."""
    from etl.tables.store import current

    return all(current(root / one.id) is not None for one in wanted.values() if one.name == answer.name)


def _refresh(wanted: Sequence[Wanted], keeper: _Keeper, done: threading.Event) -> None:
    due = {one.id: time.monotonic() + _seconds(one) for one in wanted}
    while not done.wait(max(0.0, min(due.values()) - time.monotonic())):
        now = [one for one in wanted if due[one.id] <= time.monotonic()]
        for answer in _built(now, keeper.root):
            keeper.take(answer)
        due |= {one.id: time.monotonic() + _seconds(one) for one in now}


def _seconds(one: Wanted) -> float:
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

    def take(self, answer: Answer) -> None:
        """Another answer."""
        name = answer.name
        self._note(answer)
        if answer.error and self._said.get(name) == answer.error:
            return
        if name in self._said and not answer.error:
            self.say("info", f"table {name!r} can be read again")
        self._said.pop(name, None)
        if answer.error:
            self._said[name] = answer.error
        words = list(_words(answer))
        again = answer.current is not None and answer.current.version is None and self._same.get(name) == words
        for level, text in () if again else words:
            self.say(level, f"table {name!r}{text}")
        self._same[name] = words

    def _note(self, answer: Answer) -> None:
        known = self.in_use.setdefault(answer.name, TableInUse())
        known.error = answer.error
        if answer.error:
            known.failed += 1
        elif answer.current is not None:
            known.version = answer.current.version or Path(answer.current.file).stem
            known.rows, known.built, known.checked = answer.current.what.rows, answer.current.built, time.time()


def _words(answer: Answer) -> Iterator[tuple[str, str]]:
    """Levels, and what is said behind the table's name."""
    for text in answer.said:
        yield "warning", f": {text}"
    if answer.error:
        yield "warning", f" cannot be read, the version before stays in use: {answer.error}"
    elif answer.new and answer.current is not None:
        what = answer.current.what
        parts = [f"{what.rows:,} row{'' if what.rows == 1 else 's'}"]
        parts += [f"{what.again:,} more with a key that came before"] if what.again else []
        first = f" (the first: {what.first})" if what.first else ""
        parts += [f"{what.missing:,} without a key that can be read left out{first}"] if what.missing else []
        since = answer.current.since
        parts += [f"{since.read:,} read for this version"] if since is not None and since.read is not None else []
        yield "warning" if what.missing else "info", f": {', '.join(parts)}"
