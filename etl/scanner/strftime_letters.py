"""The conversions of C's strftime as the letters of the parser `timestamp`, which are Java's. Source: POSIX."""

from __future__ import annotations

from collections.abc import Mapping

LETTERS: Mapping[str, str] = {
    "Y": "yyyy",
    "y": "yy",
    "m": "MM",
    "d": "dd",
    "e": "d",
    "H": "HH",
    "k": "H",
    "I": "hh",
    "l": "h",
    "M": "mm",
    "S": "ss",
    "b": "MMM",
    "h": "MMM",
    "B": "MMMM",
    "a": "EEE",
    "A": "EEEE",
    "p": "a",
    "P": "a",
    "z": "Z",
    "Z": "z",
    "T": "HH:mm:ss",
    "R": "HH:mm",
    "r": "hh:mm:ss a",
    "D": "MM/dd/yy",
    "F": "yyyy-MM-dd",
    "c": "EEE MMM d HH:mm:ss yyyy",
    "n": " ",
    "t": " ",
}
"""Letter after the per cent sign → pattern; without those of fractions of a second, which tools write differently."""
