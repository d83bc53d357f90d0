"""Paths into JSON: ``source.ip``, ``tags[0]``, ``events[2].id``, ``labels["a.b"]``."""

from __future__ import annotations

import re
from typing import TypeAlias

JsonPath: TypeAlias = tuple[str | int, ...]
"""Names of members and places in arrays, counted from 0."""

_STEP = re.compile(r"""\.?(?P<name>[^.\[\]"']+)|\[(?P<place>\d{1,9})\]|\[(?P<q>["'])(?P<quoted>.*?)(?P=q)\]""")


class PathError(ValueError):
    """A path that cannot be read; ``at`` is the character."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def parse(text: str) -> JsonPath:
    """The text of a path → its steps. Raises PathError that says what is accepted."""
    steps: list[str | int] = []
    at = 0
    while at < len(text) or not text:
        found = _STEP.match(text, at)
        if not found or (found["name"] is not None and (at == 0) == found[0].startswith(".")):
            raise PathError(f'expected a name, [0] or ["name"], found {text[at : at + 20]!r}', at)
        if found["place"] is not None and not at:
            raise PathError("the text is an object: a path begins with a name", at)
        step = found["name"] if found["name"] is not None else found["quoted"]
        steps.append(int(found["place"]) if step is None else step)
        at = found.end()
        if found["name"] is not None and text[at : at + 1] not in ("", ".", "["):
            raise PathError(f"expected '.' or '[', found {text[at : at + 20]!r}", at)
    return tuple(steps)
