"""``python -m etl.scanner.machine.make FILE``: compile the tables that are kept there.

A process of its own, for LLVM keeps 60 MB of what it needed, and a worker has better things to do meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import resource
import sys
from pathlib import Path

import llvmlite.binding as llvm

from etl.columns.cache_files import load, save
from etl.scanner.machine.code import Code
from etl.scanner.tables import Tables

MOST_STATES = 1_000
"""Of tables that are compiled: 3 s and 150 MB for so many; larger ones stay tables."""

MOST_CPU_SECONDS = 60


def main() -> None:
    """Make the file's code, unless another process does."""
    file = Path(sys.argv[1])
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
    llvm.set_option("", "-disable-machine-licm")  # it would move constants of all states in front of the loop, and spill them
    with file.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        tables = load(file.with_suffix(".tables"), Tables)
        if tables is not None and len(tables.finals) <= MOST_STATES:
            save(file.with_suffix(".code"), Code.of(tables))


if __name__ == "__main__":
    main()
