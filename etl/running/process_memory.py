"""The memory of this run's processes, by what they are, read from Linux' /proc."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_KINDS = (
    ("/java", "jvm"),
    ("python_streaming_source_runner", "planner"),
    ("startup.daemon", "worker"),
    ("pyspark.", "spark-python"),
    ("startup.zygote", "spark-python"),
)
"""A part of the command line → what the process is."""


def resident_bytes() -> Mapping[str, int]:
    """Kind of process → bytes, where pages that several processes share count in parts (PSS); empty where /proc has no such."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            parents.setdefault(_parent(folder), []).append(int(folder.name))
    found: Counter[str] = Counter()
    waiting = [(os.getpid(), "driver")]
    while waiting:
        number, kind = waiting.pop()
        with suppress(OSError, ValueError):
            found[kind] += _pss(number)
        waiting += [(child, _kind(child)) for child in parents.get(number, ())]
    return dict(found)


def _parent(folder: Path) -> int:
    """The fourth field of ``stat``; the second is a name in parentheses, which may have any letters."""
    return int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def _pss(number: int) -> int:
    lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _kind(number: int) -> str:
    try:
        line = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return "other"
    return next((kind for part, kind in _KINDS if part in line), "other")
