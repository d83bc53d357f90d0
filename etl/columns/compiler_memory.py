"""Releases the compiler's memory: once kernels are loaded, 70 MB of the compiler's code are no longer needed.

These are unmodified pages of a file, so the system reads them again if the compiler is needed once more.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LIBRARY = "libllvmlite"
DONT_NEED = 4
"""MADV_DONTNEED of madvise(2): unmodified pages of a file are dropped, and read again at the next access."""

_MAPPING = re.compile(r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) r-(?:x|-)p .*" + LIBRARY)
_PRIVATE = re.compile(r"Anonymous: +(?P<kilobytes>\d+) kB")


def shed_compiler() -> None:
    """Release the compiler's pages; does nothing on systems other than Linux."""
    with suppress(OSError):
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in _unmodified_mappings(Path("/proc/self/smaps").read_text()):
            advise(start, end - start, DONT_NEED)


def _unmodified_mappings(smaps: str) -> Iterator[tuple[int, int]]:
    """The library's read-only mappings without private pages of this process."""
    for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE):
        found, private = _MAPPING.match(mapping), _PRIVATE.search(mapping)
        if found and private and private["kilobytes"] == "0":
            yield int(found["start"], 16), int(found["end"], 16)
