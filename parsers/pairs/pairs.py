"""Pairs of keys and values of many rows → declared fields as typed columns, and what is left as one JSON text a row.

A format's kernel says where the keys and values of every row lie (`Pairs`); nothing has been copied by then. Keys are told
apart once a batch (`parsers.pairs.kernel.intern`), so names are Python's business once for each distinct key, not for each
pair; then every pair knows its place: a declared field, the rest, or nowhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from etl.api import format_type
from etl.columns.texts import Texts, owned_array
from parsers.common.failures import Failures, wrong_values
from parsers.common.text_types import Read, reader
from parsers.pairs.columns import list_column, rest_column, text_column

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Repeats = Literal["array", "distinct", "first", "last"]
"""Which values of a key that a row has several times count."""

Name: TypeAlias = Callable[[str], str | None]
"""A key as it was written → the field it gives; None for one that is left out."""

KNOWN_KEYS = 65_536
"""Keys whose names are remembered from batch to batch."""

FIRST, LAST, ALL = range(3)
"""What a place does with a repeated key."""

_MODES: dict[Repeats, int] = {"array": ALL, "distinct": ALL, "first": FIRST, "last": LAST}


class Pairs(NamedTuple):
    """The pairs of a column's rows, row after row."""

    bounds: Array
    """int64[rows + 1]: the pairs of row n are ``bounds[n]`` to ``bounds[n + 1]``."""

    keys: Texts
    values: Texts
    """A length of -1 is a key that stands alone: it is ``true``."""


class Settled(NamedTuple):
    """Pairs in their places."""

    picks: Array
    """int64[places, rows]: the pair that each declared field takes in each row, -1 for none."""

    places: Array
    """int32[pairs]: the place of a pair, negative for none."""

    links: Array
    """int64[pairs]: the next pair of the same key in the row, -1 for none."""


@dataclass(frozen=True)
class PairColumns:
    """Pairs → columns."""

    fields: Mapping[str, pa.DataType]
    """Declared fields: a list takes all values of its name, whatever ``repeats`` says."""

    rest: str | None
    """The JSON text of all other pairs, null where there are none; None drops them."""

    repeats: Repeats
    """For ``array`` and ``distinct``, a single value is the last one, and the rest holds arrays."""

    name: Name
    read: Callable[[pa.DataType], Read] = reader
    """How texts become values of a type."""

    def compile(self) -> Callable[[Pairs, Failures], dict[str, pa.Array]]:
        """A function of pairs; a value that does not fit its field is noted in the failures."""
        reads = {field: self.read(item_type(type_)) for field, type_ in self.fields.items()}
        places = _KeyColumns(list(self.fields), self.name, self.rest is not None)
        modes = [ALL if pa.types.is_list(type_) else self._single for type_ in self.fields.values()]

        def columns(pairs: Pairs, failures: Failures) -> dict[str, pa.Array]:
            place_of_pair, literals = places.of(pairs.keys)
            if self.repeats == "distinct":
                place_of_pair[_repeated(pairs, place_of_pair)] = -1
            settled = _settled(pairs, place_of_pair, [*modes, *[_MODES[self.repeats]] * len(literals)], len(modes))
            found = {
                field: _typed(field, pairs, settled, number, type_, reads[field], failures)
                for number, (field, type_) in enumerate(self.fields.items())
            }
            if self.rest is not None:
                found[self.rest] = rest_column(pairs, settled, literals, len(modes))
            return found

        return columns

    @property
    def _single(self) -> int:
        return FIRST if self.repeats == "first" else LAST


def item_type(type_: pa.DataType) -> pa.DataType:
    """The type of one value of a field."""
    return type_.value_type if pa.types.is_list(type_) else type_


def numbered(texts: Texts) -> tuple[Array, Array]:
    """The number of each text (int32), equal ones alike, and by number where one of them is (int64)."""
    import numpy as np

    from parsers.pairs.kernel import intern

    many = len(texts.address)
    table = np.zeros(1 << max(2 * many, 2).bit_length(), np.int32)
    numbers, first = np.empty(many, np.int32), np.empty(many, np.int64)
    seed = np.uint64(int.from_bytes(os.urandom(8), "little"))  # so that nobody can choose texts that collide
    count = int(intern(texts.address, texts.length, seed, table, first, numbers))
    return numbers, first[:count]


def distinct(texts: Texts) -> tuple[Array, list[bytes]]:
    """The number of each text (int32), and the distinct texts by number."""
    numbers, first = numbered(texts)
    return numbers, owned_array(text_column(texts, first)).cast(pa.binary()).to_pylist()


class _KeyColumns:
    """Keys → places: declared fields first, then the names of the rest in the order in which a batch brings them."""

    def __init__(self, fields: list[str], name: Name, rest: bool) -> None:
        self._fields = {field: place for place, field in enumerate(fields)}
        self._name, self._rest = name, rest
        self._names: dict[bytes, str | None] = {}

    def of(self, keys: Texts) -> tuple[Array, list[bytes]]:
        """The place of each key (int32, -1 for none), and the JSON text of the rest's names."""
        import numpy as np

        numbers, texts = distinct(keys)
        if len(self._names) > KNOWN_KEYS:
            self._names.clear()
        places = dict(self._fields)
        found = np.empty(len(texts), np.int32)
        for number, text in enumerate(texts):
            name = self._named(text)
            if name is None or not (self._rest or name in self._fields):
                found[number] = -1
            else:
                found[number] = places.setdefault(name, len(places))
        return found[numbers], [_literal(name) for name in list(places)[len(self._fields) :]]

    def _named(self, key: bytes) -> str | None:
        if key not in self._names:
            self._names[key] = self._name(key.decode("utf-8", "replace"))
        return self._names[key]


def _literal(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode("utf-8", "replace") + b":"


def _settled(pairs: Pairs, places: Array, modes: list[int], declared: int) -> Settled:
    import numpy as np

    from parsers.pairs.kernel import settle

    rows = len(pairs.bounds) - 1
    settled = Settled(np.full((declared, rows), -1, np.int64), places, np.empty(len(places), np.int64))
    seen, ends = np.full(len(modes), -1, np.int64), np.empty(len(modes), np.int64)
    settle(pairs.bounds, np.array(modes, np.uint8), pairs.values.length, seen, ends, *settled)
    return settled


def _repeated(pairs: Pairs, places: Array) -> Array:
    """Which pairs (bool) have the place and value of an earlier one in their row."""
    import numpy as np

    values, _ = numbered(pairs.values)
    rows = np.repeat(np.arange(len(pairs.bounds) - 1), np.diff(pairs.bounds))
    order = np.lexsort((values, places, rows))
    same = np.ones(max(len(order) - 1, 0), bool)
    for column in (values, places, rows):
        same &= column[order[1:]] == column[order[:-1]]
    repeated = np.zeros(len(order), bool)
    repeated[order[1:][same]] = True
    return repeated


def _typed(
    field: str, pairs: Pairs, settled: Settled, place: int, type_: pa.DataType, read: Read, failures: Failures
) -> pa.Array:
    picks = settled.picks[place]
    if pa.types.is_list(type_):
        return list_column(field, pairs, settled, picks, type_, read, failures)
    texts = text_column(pairs.values, picks)
    values, wrong = read(texts)
    if wrong is not None and wrong.any():
        failures.add(wrong, wrong_values(field, texts, wrong, format_type(type_)))
    return values
