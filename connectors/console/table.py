"""Events as lines with aligned columns, safe to print on a terminal whatever the events contain."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from connectors.console.escapes import escape_text
from etl.api import HIDDEN
from etl.columns.json.values import as_text, to_json_types

MIN_COLUMN_WIDTH = 8
"""Columns are never narrower than this, even if lines become wider than the terminal."""

SAMPLE_EVENTS = 200
"""Events from which the widths of columns are computed."""

GAP = "  "


class ConsoleTable:
    """Formats events as table lines. Prints the header first, and again when the columns change."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.names: list[str] | None = None
        self.column_widths: list[int] = []
        self.right: list[bool] = []

    def lines(self, batch: pa.RecordBatch) -> Iterator[str]:
        """Yield a line for each event. Loops over events: people read more slowly than Python writes."""
        shown = batch.drop_columns([name for name in HIDDEN if name in batch.schema.names])
        columns = [_texts(column, 4 * self.width) for column in shown.columns]
        if shown.schema.names != self.names:
            self.names = shown.schema.names
            self.right = [_is_number(type_) for type_ in shown.schema.types]
            headers = [escape_text(name) for name in self.names]
            self.column_widths = column_widths(headers, [column[:SAMPLE_EVENTS] for column in columns], self.width)
            yield self._line(headers)
            yield self._line(["─" * width for width in self.column_widths])
        for row in zip_longest(*columns) if columns else ([] for _ in range(batch.num_rows)):
            yield self._line(row)

    def _line(self, cells: Sequence[str]) -> str:
        return GAP.join(
            _fit_to_width(cell, width, right) for cell, width, right in zip(cells, self.column_widths, self.right, strict=True)
        ).rstrip()


def display_width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def column_widths(headers: Sequence[str], samples: Sequence[Sequence[str]], limit: int) -> list[int]:
    """Return a width for each column: the needed one; the widest columns shrink until a line fits."""
    found = [
        max(display_width(header), max((display_width(cell) for cell in sample), default=0))
        for header, sample in zip(headers, samples, strict=True)
    ]
    room = limit - len(GAP) * (len(found) - 1)
    cap = min(max(found, default=0), max(limit, MIN_COLUMN_WIDTH))
    while cap > MIN_COLUMN_WIDTH and sum(min(width, cap) for width in found) > room:
        cap -= 1
    return [min(width, cap) for width in found]


def _texts(values: pa.Array, longest: int) -> list[str]:
    texts = as_text(values) if pa.types.is_nested(values.type) else to_json_types(values).cast(pa.string())
    return ["" if text is None else escape_text(text) for text in pc.utf8_slice_codeunits(texts, 0, longest).to_pylist()]


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)


def _fit_to_width(text: str, width: int, right: bool) -> str:
    taken = display_width(text)
    if taken > width:
        text = _cut(text, width - 1) + "…"
        taken = display_width(text)
    return " " * (width - taken) + text if right else text + " " * (width - taken)


def _cut(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    taken = 0
    for position, character in enumerate(text):
        taken += _character_width(character)
        if taken > width:
            return text[:position]
    return text


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
