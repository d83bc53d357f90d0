"""The grok library: a file of shared definitions and one of its own for each set.

A line is a name, blanks and an expression; ``#`` begins a comment line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_NAME = re.compile(r"\w+")

MOST_BYTES = 10_000_000
"""A pattern file that is larger is none."""


@cache
def load(pattern_set: str) -> Mapping[str, str]:
    """Name → expression of a set, ``ecs-v1`` or ``legacy``."""
    folder = Path(__file__).parent
    return MappingProxyType(read(folder / "shared.grok") | read(folder / f"{pattern_set}.grok"))


def read(path: Path) -> dict[str, str]:
    """The definitions of a file. Raises OSError, or ValueError for what is no pattern file."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    return parse(data.decode("utf-8"))


def parse(text: str) -> dict[str, str]:
    """The definitions in a text; the last of a name counts. Raises ValueError that names the line."""
    found = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, *expression = line.strip().split(maxsplit=1)
        if not expression or not _NAME.fullmatch(name):
            raise ValueError(f"line {number} is not a name, a blank and an expression: {line[:60]!r}")
        found[name] = expression[0]
    return found
