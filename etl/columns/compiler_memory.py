"""Giving back the memory of the compiler: once kernels are loaded, 70 MB of its code lie in memory for nothing.

They are pages of a file that nobody has changed: the system reads them again should the compiler be needed once more.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LIBRARY = "libllvmlite"
DONT_NEED = 4
"""MADV_DONTNEED of madvise(2): for pages of a file that were not written to, "read it again when it is touched"."""

_MAPPING = re.compile(r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) r-(?:x|-)p .*" + LIBRARY)
_OURS = re.compile(r"Anonymous: +(?P<kilobytes>\d+) kB")


def shed_compiler() -> None:
    """Let go of the compiler's pages; does nothing where the system is not Linux."""
    with suppress(OSError):
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in _untouched(Path("/proc/self/smaps").read_text()):
            advise(start, end - start, DONT_NEED)


def _untouched(smaps: str) -> Iterator[tuple[int, int]]:
    """The library's mappings that are only read, and of which no page is this process's own."""
    for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE):
        place, ours = _MAPPING.match(mapping), _OURS.search(mapping)
        if place and ours and ours["kilobytes"] == "0":
            yield int(place["start"], 16), int(place["end"], 16)
