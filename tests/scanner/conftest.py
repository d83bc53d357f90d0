"""What tests of kernels need."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from etl.scanner import kept, learning
from etl.scanner.stages import _learner


@pytest.fixture(scope="session")
def at_the_end_of_memory() -> Callable[[bytes], pa.Buffer]:
    """Bytes (256 KiB at most) → a buffer of them, behind whose end no byte can be read: the process would end."""
    page, size = mmap.PAGESIZE, 256 << 10
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def place(data: bytes) -> pa.Buffer:
        memory = mmap.mmap(-1, size + page)
        memory[size - len(data) : size] = data
        whole = pa.py_buffer(memory)
        assert libc.mprotect(whole.address + size, page, 0) == 0
        return whole.slice(size - len(data), len(data))

    return place


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own for what scanners learn, no scanner of earlier tests, time however busy the machine is.

    Returns the folder of the files.
    """
    monkeypatch.setattr(kept, "folder", lambda: tmp_path)
    monkeypatch.setattr(learning, "FIRST_SECONDS", 60.0)
    _learner.cache_clear()
    yield tmp_path / "scanners"
    _learner.cache_clear()
