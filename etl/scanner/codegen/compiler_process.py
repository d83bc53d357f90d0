"""``python -m etl.scanner.codegen.compiler_process FILE``: compiles the tables in a file of the cache folder.

A separate process, because LLVM would keep 60 MB of memory in a worker and delay it.
"""

from __future__ import annotations

import fcntl
import os
import resource
import sys
from pathlib import Path

import llvmlite.binding as llvm

from etl.columns.disk_cache import load, save
from etl.scanner.automata.transition_tables import TransitionTables
from etl.scanner.codegen.object_code import ObjectCode

MAX_STATES = 1_000
"""Largest automaton that is compiled, which takes 3 s and 150 MB; larger ones run as tables."""

MAX_CPU_SECONDS = 60


def main() -> None:
    """Compile the file's tables, unless another process does."""
    file = Path(sys.argv[1])
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    llvm.set_option("", "-disable-machine-licm")  # it would hoist the constants of all states out of the loop, and spill them
    with file.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        tables = load(file.with_suffix(".tables"), TransitionTables)
        if tables is not None and len(tables.finals) <= MAX_STATES:
            save(file.with_suffix(".code"), ObjectCode.of(tables))


if __name__ == "__main__":
    main()
