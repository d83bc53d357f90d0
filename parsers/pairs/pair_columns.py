"""Pairs of keys and values of many rows → declared fields as typed columns, and the other pairs as one JSON text a row.

A format's kernel finds the addresses of the keys and values of every row (`Pairs`) and copies nothing. Equal keys then get one
number (`parsers.pairs.kernel.number_texts`), so that Python names each distinct key once a batch, not each pair. Its name
assigns each pair to a slot: a declared field, a name of the rest, or none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from etl.api import format_type
from etl.columns.texts import Texts, materialize_array
from parsers.common.failures import Failures, wrong_values
from parsers.common.text_types import Read, item_type, reader
from parsers.pairs.value_columns import make_list_column, make_rest_column, make_text_column

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Repeats = Literal["array", "distinct", "first", "last"]
"""The values that count of a key that a row has several times."""

NameKey: TypeAlias = Callable[[str], str | None]
"""A key as it was written → the field it gives; None for one that is dropped."""

MAX_CACHED_KEYS = 65_536
"""Keys whose names are cached from batch to batch."""

FIRST, LAST, ALL = range(3)
"""The values of a repeated key that a slot takes."""

_MODES: dict[Repeats, int] = {"array": ALL, "distinct": ALL, "first": FIRST, "last": LAST}


class Pairs(NamedTuple):
    """The pairs of a column's rows, row after row."""

    bounds: Array
    """int64[rows + 1]: the pairs of row n are ``bounds[n]`` to ``bounds[n + 1]``."""

    keys: Texts
    values: Texts
    """A length of -1 is a key that stands alone: it is ``true``."""


class AssignedPairs(NamedTuple):
    """Pairs assigned to slots: declared fields first, then the names of the rest."""

    picks: Array
    """int64[fields, rows]: the pair that each declared field takes in each row, -1 for none."""

    slots: Array
    """int32[pairs]: the slot of a pair, negative for none."""

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
    """For ``array`` and ``distinct`` a field of one value takes the last, and the rest has arrays."""

    name: NameKey
    read: Callable[[pa.DataType], Read] = reader
    """How texts become values of a type."""

    def compile(self) -> Callable[[Pairs, Failures], dict[str, pa.Array]]:
        """A function of pairs; a value that does not fit its field is added to the failures."""
        reads = {field: self.read(item_type(type_)) for field, type_ in self.fields.items()}
        keys = _KeySlots(list(self.fields), self.name, self.rest is not None)
        modes = [ALL if pa.types.is_list(type_) else self._single for type_ in self.fields.values()]

        def columns(pairs: Pairs, failures: Failures) -> dict[str, pa.Array]:
            slots, literals = keys.assign(pairs.keys)
            if self.repeats == "distinct":
                slots[_find_repeated(pairs, slots)] = -1
            assigned = _assign_pairs(pairs, slots, [*modes, *[_MODES[self.repeats]] * len(literals)], len(modes))
            found = {
                field: _make_field_column(field, pairs, assigned, number, type_, reads[field], failures)
                for number, (field, type_) in enumerate(self.fields.items())
            }
            if self.rest is not None:
                found[self.rest] = make_rest_column(pairs, assigned, literals, len(modes))
            return found

        return columns

    @property
    def _single(self) -> int:
        return FIRST if self.repeats == "first" else LAST


def number_texts(texts: Texts) -> tuple[Array, Array]:
    """The number of each text (int32), the same for equal ones, and by number the row of its first text (int64)."""
    import numpy as np

    from parsers.pairs import kernel

    many = len(texts.address)
    table = np.zeros(1 << max(2 * many, 2).bit_length(), np.int32)
    numbers, first = np.empty(many, np.int32), np.empty(many, np.int64)
    seed = np.uint64(int.from_bytes(os.urandom(8), "little"))  # so that nobody can choose texts that collide
    count = int(kernel.number_texts(texts.address, texts.length, seed, table, first, numbers))
    return numbers, first[:count]


def encode_texts(texts: Texts) -> tuple[Array, list[bytes]]:
    """The number of each text (int32), and the distinct texts by number."""
    numbers, first = number_texts(texts)
    return numbers, materialize_array(make_text_column(texts, first)).cast(pa.binary()).to_pylist()


class _KeySlots:
    """Assigns keys to slots: declared fields first, then the names of the rest in the order of their first key in a batch."""

    def __init__(self, fields: list[str], name: NameKey, rest: bool) -> None:
        self._fields = {field: slot for slot, field in enumerate(fields)}
        self._name, self._rest = name, rest
        self._names: dict[bytes, str | None] = {}

    def assign(self, keys: Texts) -> tuple[Array, list[bytes]]:
        """The slot of each key (int32, -1 for none), and the names of the rest as JSON."""
        import numpy as np

        numbers, texts = encode_texts(keys)
        if len(self._names) > MAX_CACHED_KEYS:
            self._names.clear()
        slots = dict(self._fields)
        found = np.empty(len(texts), np.int32)
        for number, text in enumerate(texts):
            name = self._named(text)
            if name is None or not (self._rest or name in self._fields):
                found[number] = -1
            else:
                found[number] = slots.setdefault(name, len(slots))
        return found[numbers], [_to_json_key(name) for name in list(slots)[len(self._fields) :]]

    def _named(self, key: bytes) -> str | None:
        if key not in self._names:
            self._names[key] = self._name(key.decode("utf-8", "replace"))
        return self._names[key]


def _to_json_key(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode("utf-8", "replace") + b":"


def _assign_pairs(pairs: Pairs, slots: Array, modes: list[int], declared: int) -> AssignedPairs:
    import numpy as np

    from parsers.pairs.kernel import assign_pairs

    rows = len(pairs.bounds) - 1
    assigned = AssignedPairs(np.full((declared, rows), -1, np.int64), slots, np.empty(len(slots), np.int64))
    last_row, last_pair = np.full(len(modes), -1, np.int64), np.empty(len(modes), np.int64)
    assign_pairs(pairs.bounds, np.array(modes, np.uint8), pairs.values.length, last_row, last_pair, *assigned)
    return assigned


def _find_repeated(pairs: Pairs, slots: Array) -> Array:
    """Which pairs (bool) have the slot and value of an earlier one in their row."""
    import numpy as np

    values, _ = number_texts(pairs.values)
    rows = np.repeat(np.arange(len(pairs.bounds) - 1), np.diff(pairs.bounds))
    order = np.lexsort((values, slots, rows))
    same = np.ones(max(len(order) - 1, 0), bool)
    for column in (values, slots, rows):
        same &= column[order[1:]] == column[order[:-1]]
    repeated = np.zeros(len(order), bool)
    repeated[order[1:][same]] = True
    return repeated


def _make_field_column(
    field: str, pairs: Pairs, assigned: AssignedPairs, slot: int, type_: pa.DataType, read: Read, failures: Failures
) -> pa.Array:
    picks = assigned.picks[slot]
    if pa.types.is_list(type_):
        return make_list_column(field, pairs, assigned, picks, type_, read, failures)
    texts = make_text_column(pairs.values, picks)
    values, wrong = read(texts)
    if wrong is not None and wrong.any():
        failures.add(wrong, wrong_values(field, texts, wrong, format_type(type_)))
    return values
