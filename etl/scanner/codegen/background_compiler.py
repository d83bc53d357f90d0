"""Compiles an automaton's tables in a background process, and loads the machine code when it is there."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from etl.columns.compiler_memory import shed_compiler
from etl.columns.disk_cache import load
from etl.scanner.codegen.object_code import LoadedCode, ObjectCode

_children: list[subprocess.Popen[bytes]] = []
"""Running compiler processes; they end by themselves."""


class BackgroundCompiler:
    """``file``: the scanner's tables in the cache folder (`etl.columns.disk_cache`); the code is stored beside them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._loaded_at = 0
        self._requested = False
        self._loaded: LoadedCode | None = None
        self._load_new()

    @property
    def code(self) -> LoadedCode | None:
        """The code that is loaded, if any."""
        if self._requested:
            self._load_new()
        return self._loaded

    def request(self) -> None:
        """Start compiling the stored tables, unless this process has requested it and the code is not there yet."""
        _children[:] = [child for child in _children if child.poll() is None]
        if self._requested:
            return
        self._requested = True
        command = [sys.executable, "-m", "etl.scanner.codegen.compiler_process", str(self._file)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        silent = subprocess.DEVNULL
        with suppress(OSError):  # no memory for another process: the tables continue to run
            _children.append(
                subprocess.Popen(command, env=environment, start_new_session=True, stdin=silent, stdout=silent, stderr=silent)
            )

    def _load_new(self) -> None:
        """Load the code if the file has changed."""
        file = self._file.with_suffix(".code")
        try:
            changed = file.stat().st_mtime_ns
        except OSError:
            return
        if changed == self._loaded_at:
            return
        self._loaded_at, self._requested = changed, False
        code = load(file, ObjectCode)
        if code is not None and code.runs_here():
            self._loaded = LoadedCode(code)
            shed_compiler()  # loading code touches many of the compiler's pages
