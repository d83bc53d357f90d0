"""Columns of texts → columns of values that a Python function looks up, once for each distinct text.

The values of up to `MAX_CACHED` texts are cached from batch to batch, because logs repeat the same texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from etl.api import Parsed, Schema

Find: TypeAlias = Callable[[str], tuple[Any, ...]]
"""A text → a value for each field. Raises ValueError with the reason where the text is none of its kind."""

MAX_CACHED = 100_000
"""Texts in the cache; when there are more, it is emptied."""

MAX_CHARACTERS = 1024
"""Characters of a text in the cache."""


class DistinctLookup:
    """Looks texts up with ``find``, a Python call for each that is not in the cache. A null text gives nulls."""

    def __init__(self, schema: Schema, find: Find) -> None:
        self._schema = schema
        self._find = find
        self._cache: dict[str, tuple[Any, ...] | str] = {}

    def __call__(self, texts: pa.StringArray) -> Parsed:
        """A column for each field of the schema."""
        encoded = texts.dictionary_encode()
        found = list(map(self._look_up, encoded.dictionary.to_pylist()))
        nothing = (None,) * len(self._schema)
        values = zip(*(nothing if isinstance(one, str) else one for one in found), strict=True) if found else nothing
        columns = {
            field.name: pa.array(column or (), field.type).take(encoded.indices)
            for field, column in zip(self._schema, values, strict=True)
        }
        return _make_parsed(columns, found, encoded.indices)

    def _look_up(self, text: str) -> tuple[Any, ...] | str:
        """The values, or the reason why there are none."""
        cached = self._cache.get(text)
        if cached is not None:
            return cached
        try:
            found: tuple[Any, ...] | str = self._find(text)
        except ValueError as error:
            found = str(error)
        if len(text) <= MAX_CHARACTERS:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[text] = found
        return found


def _make_parsed(columns: dict[str, pa.Array], found: Iterable[tuple[Any, ...] | str], rows: pa.Array) -> Parsed:
    reasons = [one if isinstance(one, str) else None for one in found]
    if not any(reason is not None for reason in reasons):
        return Parsed(columns)
    each = pa.array(reasons, pa.string()).take(rows)
    return Parsed(columns, each.is_valid(), each)
