"""Layouts of times in Go (``2006-01-02 15:04:05``) → patterns in Java's letters (``yyyy-MM-dd HH:mm:ss``).

Source: the documentation of Go's package time, "Constants".
"""

from __future__ import annotations

import re

_LAYOUT = {
    "2006": "yyyy",
    "January": "MMMM",
    "Jan": "MMM",
    "01": "MM",
    "1": "M",
    "002": "DDD",
    "__2": "DDD",
    "02": "dd",
    "_2": "d",
    "2": "d",
    "15": "HH",
    "03": "hh",
    "3": "h",
    "04": "mm",
    "4": "m",
    "05": "ss",
    "5": "s",
    "Monday": "EEEE",
    "Mon": "EEE",
    "PM": "a",
    "pm": "a",
    "MST": "z",
    "Z07:00": "XXX",
    "Z0700": "XX",
    "Z07": "X",
    "-07:00": "xxx",
    "-0700": "Z",
    "-07": "x",
    "06": "yy",
}
_PART = re.compile(
    rf"(?P<fraction>(?<=[05])[.,](?:0+|9+)(?!\d))|(?P<part>{'|'.join(sorted(map(re.escape, _LAYOUT), key=len, reverse=True))})"
    r"|(?P<text>[A-Za-z]+?(?=Jan|Mon|MST|PM|pm|Z07|\d|\W|_|$))|(?P<sign>['\[\]])"
)
_SECONDS = re.compile(r"(?<!s)(s{1,2})(?![.,\[s])")


def java_layout(layout: str, *, with_fractions: bool = False) -> str:
    """A layout in Java's letters. ``with_fractions``: seconds may have a fraction, as when Go reads a text."""

    def replace(found: re.Match[str]) -> str:
        if found["text"]:
            return f"'{found['text']}'"
        if found["sign"]:
            return "''" if found["sign"] == "'" else f"'{found['sign']}'"
        if found["fraction"]:
            digits = "S" * min(len(found["fraction"]) - 1, 9)
            return f"{found['fraction'][0]}{digits}" if "0" in found["fraction"] else f"[{found['fraction'][0]}SSSSSSSSS]"
        return _LAYOUT[found["part"]]

    parts = re.split(r"('[^']*')", _PART.sub(replace, layout))
    if with_fractions:
        parts[::2] = [_SECONDS.sub(r"\1[.SSSSSSSSS]", part) for part in parts[::2]]
    return "".join(parts)
