"""Paths into JSON: ``source.ip``, ``tags[0]``, ``events[2].id``, ``labels["a.b"]``."""

from __future__ import annotations

import re
from typing import TypeAlias

from parsers.common.path_error import PathError

JsonPath: TypeAlias = tuple[str | int, ...]
"""Names of members and indexes of arrays, from 0."""

_STEP = re.compile(r"""\.?(?P<name>[^.\[\]"']+)|\[(?P<index>\d{1,9})\]|\[(?P<q>["'])(?P<quoted>.*?)(?P=q)\]""")


def parse_path(text: str) -> JsonPath:
    """The text of a path → its steps. Raises PathError that says what is accepted."""
    steps: list[str | int] = []
    at = 0
    while at < len(text) or not text:
        found = _STEP.match(text, at)
        if not found or (found["name"] is not None and (at == 0) == found[0].startswith(".")):
            raise PathError(f'expected a name, [0] or ["name"], found {text[at : at + 20]!r}', at)
        if found["index"] is not None and not at:
            raise PathError("the text is an object: a path begins with a name", at)
        step = found["name"] if found["name"] is not None else found["quoted"]
        steps.append(int(found["index"]) if step is None else step)
        at = found.end()
        if found["name"] is not None and text[at : at + 1] not in ("", ".", "["):
            raise PathError(f"expected '.' or '[', found {text[at : at + 20]!r}", at)
    return tuple(steps)
