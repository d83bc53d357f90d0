"""Compiling the kernel that parses times in a separate process, while the first candidates run: nearly all need it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from etl.api import ArrowStep
from etl.catalogue import installed
from etl.scanner import warm_up

_SCHEMA = pa.schema([("timestamp", pa.string())])

_finished: list[int] = []
"""Exit codes of the processes that have compiled the kernel for this one; a second search starts none."""


@contextmanager
def compiling_time_kernel() -> Iterator[None]:
    """Compile the kernel while the body runs, unless this machine or process has compiled it before; waits for it at the end."""
    if _finished or warm_up.marker().exists():
        yield
        return
    process = subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        _finished.append(process.wait())


def _compile_kernel() -> None:
    from etl.segment.kernel_warmup import run_on_samples

    step = installed().families["step"]["timestamp"].model_validate({})
    assert isinstance(step, ArrowStep)
    run_on_samples(step, _SCHEMA)


if __name__ == "__main__":
    _compile_kernel()
