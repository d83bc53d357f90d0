"""Columns of texts → columns of what is known of each text, which is looked up once for each distinct one.

What has been looked up is kept from batch to batch, up to `MOST_KEPT` texts, for the same texts come again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from etl.api import Parsed, Schema

Find: TypeAlias = Callable[[str], tuple[Any, ...]]
"""A text → a value for each field. Raises ValueError with the reason where the text is none of its kind."""

MOST_KEPT = 100_000
"""Texts that are remembered; when there are more, all are forgotten."""

MOST_CHARACTERS = 1024
"""Of a text that is remembered."""


class DistinctLookup:
    """Looks texts up with ``find``, a Python call for each that is not known yet. A null text gives nulls."""

    def __init__(self, schema: Schema, find: Find) -> None:
        self._schema = schema
        self._find = find
        self._known: dict[str, tuple[Any, ...] | str] = {}

    def __call__(self, texts: pa.StringArray) -> Parsed:
        """A column for each field of the schema."""
        encoded = texts.dictionary_encode()
        found = list(map(self._found, encoded.dictionary.to_pylist()))
        nothing = (None,) * len(self._schema)
        values = zip(*(nothing if isinstance(one, str) else one for one in found), strict=True) if found else nothing
        columns = {
            field.name: pa.array(column or (), field.type).take(encoded.indices)
            for field, column in zip(self._schema, values, strict=True)
        }
        return _parsed(columns, found, encoded.indices)

    def _found(self, text: str) -> tuple[Any, ...] | str:
        """The values, or the reason why there are none."""
        known = self._known.get(text)
        if known is not None:
            return known
        try:
            found: tuple[Any, ...] | str = self._find(text)
        except ValueError as error:
            found = str(error)
        if len(text) <= MOST_CHARACTERS:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[text] = found
        return found


def _parsed(columns: dict[str, pa.Array], found: Iterable[tuple[Any, ...] | str], rows: pa.Array) -> Parsed:
    reasons = [one if isinstance(one, str) else None for one in found]
    if not any(reason is not None for reason in reasons):
        return Parsed(columns)
    each = pa.array(reasons, pa.string()).take(rows)
    return Parsed(columns, each.is_valid(), each)
