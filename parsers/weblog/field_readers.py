"""Captured values of a web log → columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.columns.text_layout import boolean_values
from etl.columns.texts import Texts, materialize_array, take_rows
from etl.scanner.scanner import Scan
from parsers.common.view_values import dash_is_null, empty_where, replace_rows
from parsers.timestamp.parser import Timestamp
from parsers.weblog.format_parts import SCALES, Kind
from parsers.weblog.line_layout import LINE, LineLayout

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]


class Read(NamedTuple):
    """A field's values; ``wrong`` (bool[n] or None) is where the text is not what was ``expected``."""

    values: pa.Array
    wrong: Bools | None = None
    expected: str = ""


Reader: TypeAlias = Callable[[Scan], Read]

_REALS = ("real", "real_list")

TYPES: Mapping[Kind, pa.DataType] = {
    "time": TIMESTAMP,
    "whole": pa.int64(),
    "signed": pa.int64(),
    "whole_list": pa.int64(),
    "seconds": pa.int64(),
    "milliseconds": pa.int64(),
    "microseconds": pa.int64(),
    "real": pa.float64(),
    "real_list": pa.float64(),
}
"""Types of the kinds that are not text."""


_ESCAPE = re.compile(rb'\\(?:x([0-9A-Fa-f]{2})|(["\\/bfnrtv]))')
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def field_kinds(layouts: Sequence[LineLayout]) -> dict[str, Kind]:
    """Field → how it is written."""
    written = {name: kind for one in layouts for name, kind in one.kinds.items()}
    return {name: written.get(name, "text") for one in layouts for name in one.fields}


def field_readers(layouts: Sequence[LineLayout], timezone: str, unescape: bool) -> dict[str, Reader]:
    """A reader for each field."""
    return dict(_readers(layouts, timezone, unescape))


def _readers(layouts: Sequence[LineLayout], timezone: str, unescape: bool) -> Iterator[tuple[str, Reader]]:
    for name, kind in field_kinds(layouts).items():
        if kind == "time":
            formats = dict.fromkeys(text for one in layouts for text in one.formats.get(name, ()))
            yield name, _time(name, tuple(formats), timezone)
        else:
            yield name, _number(name, kind) if kind in TYPES else _text(name, layouts, unescape)


def _time(name: str, formats: tuple[str, ...], timezone: str) -> Reader:
    parse = Timestamp(formats=formats, timezone=timezone).compile()

    def read(scan: Scan) -> Read:
        texts = scan.captures[name]
        found = parse(texts).columns["timestamp"]
        return Read(found, _lost(texts, found), f"a time in {', '.join(formats)}")

    return read


def _number(name: str, kind: Kind) -> Reader:
    def read(scan: Scan) -> Read:
        from etl.columns.numbers import real_numbers, whole_numbers

        texts = scan.captures[name]
        found = real_numbers(texts) if kind in (*_REALS, *SCALES) else whole_numbers(texts)
        if kind in SCALES:
            found = _nanoseconds(found, SCALES[kind])
        return Read(found, _lost(texts, found), "a number of 64 bits")

    return read


def _nanoseconds(times: pa.DoubleArray, scale: int) -> pa.Int64Array:
    """Null where they do not fit."""
    scaled = pc.round(pc.multiply(times, float(scale)))
    return pc.cast(pc.if_else(pc.less(scaled, 2.0**63), scaled, None), pa.int64())


def _lost(texts: pa.Array, found: pa.Array) -> Bools | None:
    """Where a text gave no value."""
    return boolean_values(pc.and_(texts.is_valid(), pc.is_null(found))) if found.null_count > texts.null_count else None


def _text(name: str, layouts: Sequence[LineLayout], unescape: bool) -> Reader:
    always = [number for number, one in enumerate(layouts) if name in one.quoted]
    marks = {one.marked[name] for one in layouts if name in one.marked}

    def read(scan: Scan) -> Read:
        import numpy as np

        texts = scan.captures[name]
        there = np.isin(scan.pattern, always) if always else np.zeros(len(texts), bool)
        for mark in marks:
            there |= boolean_values(scan.captures[mark].is_valid())
        if name == LINE:
            there &= ~boolean_values(scan.captures["http.request.method"].is_valid())
        texts = dash_is_null(empty_where(texts, there))
        return Read(_unescape(texts) if unescape else texts)

    return read


def _unescape(texts: pa.Array) -> pa.Array:
    """Views with escapes resolved: ``\\"`` ``\\\\`` ``\\n`` ``\\x16``; a text whose bytes are not UTF-8 stays as it was written.

    A loop over the few texts with a backslash: each has to be decoded by itself.
    """
    rows = Texts.of(texts).contains_byte(ord("\\")).nonzero()[0]
    if not len(rows):
        return texts
    written = materialize_array(take_rows(texts, rows)).to_pylist()
    return replace_rows(texts, rows, pa.array([_unescape_text(text) for text in written], pa.string_view()))


def _unescape_text(text: str) -> str:
    try:
        return _ESCAPE.sub(_character, text.encode()).decode()
    except UnicodeDecodeError:
        return text


def _character(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return bytes([int(found[1], 16)])
    return _LETTERS.get(found[2], found[2])
