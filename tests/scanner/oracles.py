"""Expected matches: by Python's ``re``, and, where that is wrong, by the package ``regex``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import regex

from etl.columns.texts import Texts, make_view_array
from etl.scanner.learning import MatchArrays
from etl.scanner.pattern_error import PatternError
from etl.scanner.scanner import Scan
from etl.scanner.syntax import parse
from etl.scanner.tree import Node

Row = tuple[int, dict[str, str | None]] | None
"""The match in a text: the pattern's number and its captures, empty ones as None; None without a match."""


def tree(pattern: str) -> Node:
    """A pattern without ``%{…}`` as a tree. Raises PatternError."""

    def missing(name: str, at: int) -> Node:
        raise PatternError(name, at)

    return parse(pattern, missing)


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Any:
    """The pattern as `re` or `regex` compile it; None if they do not.

    ``regex`` takes atomic groups and possessive repeats. ``re`` of Python 3.11 finds wrong matches (CPython issues 106052
    and 100061) and wrong captures up to a SystemError (101955) with them, see `test_where_re_is_wrong`.
    """
    atomic = re.search(r"[*+?]\+|\(\?>", pattern)
    engine: Any = regex if atomic else re
    flags = engine.MULTILINE | engine.DOTALL | engine.ASCII | (regex.VERSION1 if atomic else 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return engine.compile(pattern, flags)
        except (re.error, regex.error):
            return None


def expected(patterns: Sequence[str], text: str | None) -> Row:
    """The match of the first pattern that matches anywhere."""
    if text is None:
        return None
    for number, pattern in enumerate(patterns):
        if found := compiled(pattern).search(text):
            return number, {name: value or None for name, value in found.groupdict().items()}
    return None


def rows(scan: Scan) -> list[Row]:
    """A scan's matches, one for each text."""
    columns = {name: column.to_pylist() for name, column in scan.captures.items()}
    found = [(int(pattern), {name: column[n] for name, column in columns.items()}) for n, pattern in enumerate(scan.pattern)]
    assert all(value is None for pattern, captures in found if pattern < 0 for value in captures.values())
    return [None if pattern < 0 else (pattern, captures) for pattern, captures in found]


def filled(row: Row, names: Sequence[str]) -> Row:
    """An expected row, with None for the captures of other patterns."""
    return row and (row[0], {name: row[1].get(name) for name in names})


def array_of_bytes(several: Sequence[bytes | None], type_: pa.DataType) -> pa.Array:
    """A text column of any bytes: Arrow does not check whether they are UTF-8."""
    binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}[type_]
    array = pa.array(several, binary)
    return pa.Array.from_buffers(type_, len(array), array.buffers(), array.null_count)


def listed(found: MatchArrays, names: Sequence[str], texts: Texts) -> list[tuple[int, dict[str, bytes]]]:
    """For each text, the pattern and the captures that are not null."""
    columns = [
        make_view_array(views, valid, texts.buffer).cast(pa.string()).view(pa.binary()).to_pylist()
        for views, valid in zip(found.views, found.valid, strict=True)
    ]
    rows = zip(*columns, strict=True) if columns else [()] * len(found.pattern)
    return [
        (pattern, {name: value for name, value in zip(names, row, strict=True) if value is not None})
        for pattern, row in zip(found.pattern.tolist(), rows, strict=True)
    ]
