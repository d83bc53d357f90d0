"""Building table files in a process of its own: what it takes to build one is given back when it is built.

The process is given a pickled list of tables and a folder, and answers with pickled results, one by one.
"""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from etl.api import ComponentError
from etl.tables.store import Current, Wanted, refresh


@dataclass(frozen=True)
class Answer:
    """What became of a table: the file in use and whether it is new, or the error that kept it from being read."""

    name: str
    current: Current | None = None
    new: bool = False
    error: str = ""
    temporary: bool = False
    """Whether the error may pass by itself."""
    said: tuple[str, ...] = ()
    """What the table had to say of its rows."""


def built(wanted: Sequence[Wanted], root: Path) -> Iterator[Answer]:
    """Bring the files of tables up to date, in order."""
    process = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdin as there, process.stdout as back:
        pickle.dump((list(wanted), root), there)
        there.close()
        for one in wanted:
            try:
                yield pickle.load(back)
            except EOFError:
                yield Answer(one.name, error=f"reading it ended without a word (exit {process.wait()}); is there memory for it?")


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _answer(wanted: Wanted, root: Path) -> Answer:
    kept = _Kept()
    logger = logging.getLogger("sluice")
    logger.addHandler(kept)
    try:
        current, new = refresh(wanted, root)
    except (OSError, ComponentError) as error:
        return Answer(wanted.name, error=str(error), temporary=isinstance(error, OSError), said=tuple(kept.texts))
    finally:
        logger.removeHandler(kept)
    return Answer(wanted.name, current, new, said=tuple(kept.texts))


def main() -> None:
    """Answer what standard input asks."""
    wanted, root = pickle.load(sys.stdin.buffer)
    for one in wanted:
        pickle.dump(_answer(one, root), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    from etl.tables import building  # pickles name its classes, not those of __main__

    building.main()
