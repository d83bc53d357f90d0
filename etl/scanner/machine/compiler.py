"""The machine code of a scanner: loaded where there is any, made by a process beside this one where it pays."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from etl.columns.cache_files import load
from etl.columns.compiler_memory import shed_compiler
from etl.scanner.machine.code import Code, Loaded

_children: list[subprocess.Popen[bytes]] = []
"""Processes that compile; they end by themselves."""


class Compiler:
    """``file`` is where the scanner's tables are kept (`etl.columns.cache_files`); its code lies beside them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen = 0
        self._asked = False
        self._loaded: Loaded | None = None
        self._look()

    @property
    def code(self) -> Loaded | None:
        """What can be run now."""
        if self._asked:
            self._look()
        return self._loaded

    def ask(self) -> None:
        """Have the tables compiled that are kept now; one process asks once at a time."""
        _children[:] = [child for child in _children if child.poll() is None]
        if self._asked:
            return
        self._asked = True
        command = [sys.executable, "-m", "etl.scanner.machine.make", str(self._file)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        silent = subprocess.DEVNULL
        with suppress(OSError):  # no memory for another process: the tables do
            _children.append(
                subprocess.Popen(command, env=environment, start_new_session=True, stdin=silent, stdout=silent, stderr=silent)
            )

    def _look(self) -> None:
        """Load what is new on disk."""
        file = self._file.with_suffix(".code")
        try:
            changed = file.stat().st_mtime_ns
        except OSError:
            return
        if changed == self._seen:
            return
        self._seen, self._asked = changed, False
        code = load(file, Code)
        if code is not None and code.runs_here():
            self._loaded = Loaded(code)
            shed_compiler()  # loading took a look at much of it
