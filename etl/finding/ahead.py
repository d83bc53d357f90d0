"""Compiling the kernel of times in a process beside, while the first candidates are tried: nearly all of them need it, late."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from etl.api import ArrowStep
from etl.catalogue import installed
from etl.scanner import warm

_COLUMN = pa.schema([("timestamp", pa.string())])


@contextmanager
def times_compiled() -> Iterator[None]:
    """Compile it in the background where this machine has never compiled anything; it is done at the end."""
    if warm.mark().exists():
        yield
        return
    process = subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.wait()


def _compile() -> None:
    from etl.segment.kernel_warmup import run_on_samples

    step = installed().families["step"]["timestamp"].model_validate({})
    assert isinstance(step, ArrowStep)
    run_on_samples(step, _COLUMN)


if __name__ == "__main__":
    _compile()
