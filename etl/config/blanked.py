"""A text with a mistake of YAML, and without the innermost item or key around it: what else stands in it can be checked.

The rest keeps its lines and columns. Only where a text is read by that, and by that alone, is the rest checked; a mistake that
reaches further, such as a quote that is never closed, leaves the check of the file where it was.
"""

from __future__ import annotations

import re

from etl.config.model import OptionPath

_UNIT = re.compile(r"(?P<indent> *)(?P<dash>- +)?(?:(?P<key>[\w.$@/-]+) *:(?=\s|$))?")
_NOTHING = "{}"
MOST = 5
"""Mistakes of YAML that are reported at once."""

_DECIDE = (("sources",), ("streams",), ("steps",), ("sinks",), ("tables",))
"""Without these nothing is known of what stands beside them."""


def blanked(text: str, line: int) -> tuple[str, tuple[int, int], int] | None:
    """The text without the unit around a line, where the empty mapping now stands, and the last line that is gone; lines and
    columns count from 1. None where the unit has no room for it."""
    lines = text.split("\n")
    first = _unit(lines, min(line, len(lines)) - 1)
    found = _UNIT.match(lines[first]) if first is not None else None
    if first is None or found is None:
        return None
    column = found.end("dash") if found["dash"] else found.end("key") + 2
    if len(lines[first]) < column + len(_NOTHING):
        return None
    depth, last = len(found["indent"]), first
    while last + 1 < len(lines) and (not lines[last + 1].strip() or _indent(lines[last + 1]) > depth):
        last += 1
    head = lines[first][: found.end("dash")] if found["dash"] else f"{lines[first][: found.end('key')]}: "
    lines[first] = f"{head}{_NOTHING}".ljust(len(lines[first]))
    lines[first + 1 : last + 1] = [" " * len(one) for one in lines[first + 1 : last + 1]]
    return "\n".join(lines), (first + 1, column + 1), last + 1


def tells_the_rest(path: OptionPath) -> bool:
    """Whether what stands elsewhere can be checked without the value at this path."""
    return bool(path) and path not in _DECIDE and not (path[0] == "streams" and (len(path) == 2 or path[2:] == ("steps",)))


def _unit(lines: list[str], at: int) -> int | None:
    """The line in which the innermost item or key begins that reaches to this one."""
    limit = _indent(lines[at]) if lines[at].strip() else len(lines[at])
    for number in range(at, -1, -1):
        found = _UNIT.match(lines[number])
        begins = found is not None and bool(found["dash"] or found["key"])
        if lines[number].strip() and begins and (number == at or _indent(lines[number]) < limit):
            return number
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
