"""Converts the key-value pairs of many rows to typed columns for declared fields, and to a JSON text a row for other pairs.

A format's kernel finds the addresses of the keys and values of every row (`Pairs`) and copies nothing. Equal keys then get one
number (`parsers.pairs.kernel.number_texts`), so that Python maps each distinct key to a field once a batch, not for each pair.
The field assigns the pair to a slot: a declared field, a name of the rest, or none.
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
from parsers.common.text_types import TextReader, item_type, make_reader
from parsers.pairs.value_columns import make_list_column, make_rest_column, make_text_column

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Repeats = Literal["array", "distinct", "first", "last"]
"""Which values of a key that a row has several times are used."""

NameKey: TypeAlias = Callable[[str], str | None]
"""Key in the text → field name; None if the pair is dropped."""

MAX_CACHED_KEYS = 65_536
"""Maximum number of keys whose field names are cached; a full cache is cleared."""

FIRST, LAST, ALL = range(3)
"""Which values of a repeated key a slot takes."""

_MODES: dict[Repeats, int] = {"array": ALL, "distinct": ALL, "first": FIRST, "last": LAST}


class Pairs(NamedTuple):
    """The pairs of a column's rows, row after row."""

    bounds: Array
    """int64[rows + 1]: the pairs of row n are ``bounds[n]`` to ``bounds[n + 1]``."""

    keys: Texts
    values: Texts
    """A length of -1 is a key without a value, which counts as ``true``."""


class AssignedPairs(NamedTuple):
    """Pairs assigned to slots: declared fields first, then the names of the rest."""

    field_pairs: Array
    """int64[fields, rows]: the index of the pair that each declared field takes in each row, -1 for none."""

    slots: Array
    """int32[pairs]: the slot of a pair, negative for none."""

    next_pairs: Array
    """int64[pairs]: the index of the next pair with the same key in the row, -1 for none."""


@dataclass(frozen=True)
class PairColumns:
    """How the pairs of a batch become columns."""

    fields: Mapping[str, pa.DataType]
    """Declared fields. A field of a list type takes all values of its key, whatever ``repeats`` says."""

    rest: str | None
    """The column with all other pairs of a row as JSON text, null if there are none; None drops these pairs."""

    repeats: Repeats
    """With ``array`` and ``distinct`` a field with a single value takes the last one, and the rest has arrays."""

    name_key: NameKey
    read: Callable[[pa.DataType], TextReader] = make_reader
    """Returns the function that reads texts as values of a type."""

    def compile(self) -> Callable[[Pairs, Failures], dict[str, pa.Array]]:
        """Return a function of pairs that makes the columns; values that do not fit their field are added to the failures."""
        reads = {field: self.read(item_type(type_)) for field, type_ in self.fields.items()}
        keys = _KeySlots(list(self.fields), self.name_key, self.rest is not None)
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
    """Return the number of each text (int32), equal for equal texts, and by number the row of the first such text (int64)."""
    import numpy as np

    from parsers.pairs import kernel

    count = len(texts.address)
    table = np.zeros(1 << max(2 * count, 2).bit_length(), np.int32)
    numbers, first = np.empty(count, np.int32), np.empty(count, np.int64)
    seed = np.uint64(int.from_bytes(os.urandom(8), "little"))  # random, so that a sender cannot choose texts whose hashes collide
    distinct = int(kernel.number_texts(texts.address, texts.length, seed, table, first, numbers))
    return numbers, first[:distinct]


def encode_texts(texts: Texts) -> tuple[Array, list[bytes]]:
    """Return the number of each text (int32), and the distinct texts by number."""
    numbers, first = number_texts(texts)
    return numbers, materialize_array(make_text_column(texts, first)).cast(pa.binary()).to_pylist()


class _KeySlots:
    """Assigns keys to slots: declared fields first, then the names of the rest in the order of their first key in a batch."""

    def __init__(self, fields: list[str], name_key: NameKey, rest: bool) -> None:
        self._fields = {field: slot for slot, field in enumerate(fields)}
        self._name_key, self._rest = name_key, rest
        self._names: dict[bytes, str | None] = {}

    def assign(self, keys: Texts) -> tuple[Array, list[bytes]]:
        """Return the slot of each key (int32, -1 for none), and the names of the rest as JSON."""
        import numpy as np

        numbers, texts = encode_texts(keys)
        if len(self._names) > MAX_CACHED_KEYS:
            self._names.clear()
        slots = dict(self._fields)
        found = np.empty(len(texts), np.int32)
        for number, text in enumerate(texts):
            name = self._find_name(text)
            if name is None or not (self._rest or name in self._fields):
                found[number] = -1
            else:
                found[number] = slots.setdefault(name, len(slots))
        return found[numbers], [_to_json_key(name) for name in list(slots)[len(self._fields) :]]

    def _find_name(self, key: bytes) -> str | None:
        if key not in self._names:
            self._names[key] = self._name_key(key.decode("utf-8", "replace"))
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
    """Return which pairs (bool) have the slot and value of an earlier pair in their row."""
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
    field: str, pairs: Pairs, assigned: AssignedPairs, slot: int, type_: pa.DataType, read: TextReader, failures: Failures
) -> pa.Array:
    field_pairs = assigned.field_pairs[slot]
    if pa.types.is_list(type_):
        return make_list_column(field, pairs, assigned, field_pairs, type_, read, failures)
    texts = make_text_column(pairs.values, field_pairs)
    values, wrong = read(texts)
    if wrong is not None and wrong.any():
        failures.add(wrong, wrong_values(field, texts, wrong, format_type(type_)))
    return values
