"""Events as lines of aligned columns for people, safe to show on a terminal whatever the events hold."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from connectors.json_values import as_text, plain
from etl.api import HIDDEN

NARROWEST = 8
"""Columns a long value is never cut below, even if lines become wider than the terminal."""

SAMPLE = 200
"""Events that the widths of columns are taken from."""

GAP = "  "

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Table:
    """Lines of a table. The header is given when the columns are seen first or change."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.names: list[str] | None = None
        self.widths: list[int] = []
        self.right: list[bool] = []

    def lines(self, batch: pa.RecordBatch) -> Iterator[str]:
        """A line for each event. Loops over events: people read slower than Python writes."""
        shown = batch.drop_columns([name for name in HIDDEN if name in batch.schema.names])
        columns = [_texts(column, 4 * self.width) for column in shown.columns]
        if shown.schema.names != self.names:
            self.names = shown.schema.names
            self.right = [_is_number(type_) for type_ in shown.schema.types]
            headers = [safe(name) for name in self.names]
            self.widths = widths(headers, [column[:SAMPLE] for column in columns], self.width)
            yield self._line(headers)
            yield self._line(["─" * width for width in self.widths])
        for row in zip_longest(*columns) if columns else ([] for _ in range(batch.num_rows)):
            yield self._line(row)

    def _line(self, cells: Sequence[str]) -> str:
        return GAP.join(
            _fit(cell, width, right) for cell, width, right in zip(cells, self.widths, self.right, strict=True)
        ).rstrip()


def safe(text: str) -> str:
    """The text with everything that could move the cursor, change colours or the reading direction written out."""
    return _UNSAFE.sub(_escape, text)


def columns_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def widths(headers: Sequence[str], samples: Sequence[Sequence[str]], limit: int) -> list[int]:
    """A width for each column: what it needs, the widest made narrower until a line fits."""
    found = [
        max(columns_of(header), max((columns_of(cell) for cell in sample), default=0))
        for header, sample in zip(headers, samples, strict=True)
    ]
    room = limit - len(GAP) * (len(found) - 1)
    cap = min(max(found, default=0), max(limit, NARROWEST))
    while cap > NARROWEST and sum(min(width, cap) for width in found) > room:
        cap -= 1
    return [min(width, cap) for width in found]


def _texts(values: pa.Array, longest: int) -> list[str]:
    texts = as_text(values) if pa.types.is_nested(values.type) else plain(values).cast(pa.string())
    return ["" if text is None else safe(text) for text in pc.utf8_slice_codeunits(texts, 0, longest).to_pylist()]


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)


def _fit(text: str, width: int, right: bool) -> str:
    taken = columns_of(text)
    if taken > width:
        text = _cut(text, width - 1) + "…"
        taken = columns_of(text)
    return " " * (width - taken) + text if right else text + " " * (width - taken)


def _cut(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    taken = 0
    for position, character in enumerate(text):
        taken += _columns(character)
        if taken > width:
            return text[:position]
    return text


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _ESCAPES.get(character) or (f"\\x{ord(character):02x}" if character < "\u0100" else f"\\u{ord(character):04x}")
