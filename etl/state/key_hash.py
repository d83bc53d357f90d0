"""Hashes of keys: 128 bits for the values of a row's key columns, and the part of the state that they belong to.

Rows whose key columns have equal values have equal hashes, in whatever chunks, dictionaries, views or widths the values are
stored: 1 as int32 and as int64, a text and the same bytes. Null is a value of its own; all NaN are one value, and so are 0.0
and -0.0. Two different keys have the same 128 bits with a probability of about 2**-128. A secret seed, which is stored with
the state, keeps others from choosing keys that collide.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from etl.api import HASH as HASH
from etl.api import ComponentError, format_type

HASH2 = "\0hash2"
"""Column (uint64) of state files with the second half of a key's hash, beside `HASH`; where look-ups need it, rows are sorted by
the first."""

PARTS = 16
"""Divisions of the state of a step."""

_PART_BITS = 4


def new_seed() -> int:
    """A random seed for the hashes of a new state."""
    return int.from_bytes(os.urandom(8), "little")


def key_hashes(events: pa.Table | pa.RecordBatch, names: Sequence[str], seed: int = 0) -> Any:
    """uint64[2, rows]: two independent hashes of the values of these columns; columns count in the order of their names.

    Raises ComponentError for a type that has no equality, such as a map: see `is_key_type`.
    """
    import numpy as np

    from etl.state.key_hash_kernel import BEGIN, finish

    keys = _secrets(seed)
    state = np.empty((2, events.num_rows), np.uint64)
    state[0], state[1] = keys[BEGIN], keys[BEGIN + 1]
    for name in names:
        column = events.column(name)
        if not is_key_type(column.type):
            raise ComponentError(f"field {name!r} is {format_type(column.type)}, which cannot be a key: use its members")
        at = 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            part = np.ascontiguousarray(state[:, at : at + len(chunk)])  # kernels are compiled for arrays without gaps
            _absorb(chunk, keys, part)
            state[:, at : at + len(chunk)] = part
            at += len(chunk)
    finish(keys, state)
    return state


def part_of(hashes: Any) -> Any:
    """int64[rows]: the part of each key, from bits of the second hash: rows of a part are evenly spread over the first one."""
    import numpy as np

    return (hashes[1] >> np.uint64(64 - _PART_BITS)).astype(np.int64)


def sort_by_hash(hashes: Any, *lesser: Any) -> Any:
    """int64[rows]: the order of rows by their hashes, then by lesser keys, the least significant one first, then by row:
    what `numpy.lexsort` gives. Hashes are sorted alone, and then the rows that have equal ones."""
    import numpy as np

    order = np.argsort(hashes)
    ordered = hashes[order]
    if (ordered[1:] == ordered[:-1]).any():
        from etl.state.key_hash_kernel import sort_short_runs

        keys = np.empty((len(lesser), len(hashes)), np.int64)
        for own, key in zip(keys, lesser, strict=True):
            own[:] = key.view(np.int64) ^ _SIGN if key.dtype == np.uint64 else key
        unsorted = np.empty(len(order), bool)
        if sort_short_runs(ordered, keys, order, unsorted):
            rows = np.sort(order[unsorted])
            order[unsorted] = rows[np.lexsort([*(key[rows] for key in keys), hashes[rows]])]
    return order


def is_key_type(type_: pa.DataType) -> bool:
    """Whether values of a type can be keys: all but maps, unions, intervals, and lists and structs of these."""
    inner = _inner_types(type_)
    return all(map(is_key_type, inner)) if inner is not None else any(is_type(type_) for is_type, _ in _ABSORB)


def _inner_types(type_: pa.DataType) -> Sequence[pa.DataType] | None:
    if pt.is_struct(type_):
        return [field.type for field in type_]
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_) or _is_list(type_):
        return [type_.value_type]
    return [type_.storage_type] if isinstance(type_, pa.BaseExtensionType) else None


@lru_cache(8)
def _secrets(seed: int) -> Any:
    """uint64[SECRETS]: numbers derived from the seed; multipliers are odd."""
    import numpy as np

    from etl.state.key_hash_kernel import LAST, MULTIPLIER, SECRETS

    digest = hashlib.blake2b(seed.to_bytes(8, "little"), digest_size=8 * SECRETS, person=b"sluice-keys").digest()
    numbers = np.frombuffer(digest, "<u8").astype(np.uint64)
    for at in (MULTIPLIER, MULTIPLIER + 1, LAST, LAST + 1):
        numbers[at] |= np.uint64(1)
    return numbers


def _absorb(array: pa.Array, keys: Any, state: Any) -> None:
    """Extend the hashes of rows by an array's values."""
    if len(array):
        next(absorb for is_type, absorb in _ABSORB if is_type(array.type))(array, keys, state)


def _absorb_numbers(array: pa.Array, keys: Any, state: Any) -> None:
    """Whole numbers, with their sign extended to 64 bits; times in their own unit."""
    import numpy as np

    from etl.state.key_hash_kernel import absorb_numbers

    if not pt.is_integer(array.type):
        array = array.cast(pa.uint8()) if pt.is_boolean(array.type) else array.view(f"int{array.type.bit_width}")
    is_wide = pt.is_int64(array.type) or pt.is_uint64(array.type)
    numbers = array if is_wide else array.cast(pa.int64())  # a cast to the same type takes longer than to hash a small column
    absorb_numbers(_values(numbers, np.uint64), _valid(array), keys, state)


def _absorb_floats(array: pa.Array, keys: Any, state: Any) -> None:
    import numpy as np

    from etl.state.key_hash_kernel import absorb_numbers

    with np.errstate(invalid="ignore"):  # numpy warns of a signalling NaN
        numbers = _values(array.cast(pa.float64()), np.float64) + 0.0  # makes -0.0 to 0.0
    numbers[np.isnan(numbers)] = np.nan
    absorb_numbers(numbers.view(np.uint64), _valid(array), keys, state)


def _absorb_texts(array: pa.Array, keys: Any, state: Any) -> None:
    from etl.columns.texts import Texts
    from etl.state.key_hash_kernel import absorb_bytes

    as_text = {pa.binary(): pa.string(), pa.large_binary(): pa.large_string(), pa.binary_view(): pa.string_view()}
    texts = Texts.of(array.view(as_text[array.type]) if array.type in as_text else array)
    absorb_bytes(texts.address, texts.length, keys, state)


def _absorb_fixed(array: pa.Array, keys: Any, state: Any) -> None:
    """Values of a fixed number of bytes: binary ones, and decimals as unscaled numbers."""
    import numpy as np

    from etl.state.key_hash_kernel import absorb_bytes

    if pt.is_decimal(array.type):
        exact = pa.decimal128 if array.type.precision <= _MAX_DIGITS else pa.decimal256
        array = array.cast(exact(array.type.precision, array.type.scale))
    width, data = array.type.byte_width, array.buffers()[1]
    at = np.arange(array.offset, array.offset + len(array), dtype=np.uint64)
    lengths = np.full(len(array), width, np.int64)
    if array.null_count:
        lengths[~_valid(array)] = -1
    absorb_bytes(np.uint64(data.address if data else 0) + at * np.uint64(width), lengths, keys, state)


def _absorb_lists(array: pa.Array, keys: Any, state: Any) -> None:
    import numpy as np

    from etl.state.key_hash_kernel import BEGIN, absorb_lists, finish

    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
    values = array.flatten()
    elements = np.empty((2, len(values)), np.uint64)
    elements[0], elements[1] = keys[BEGIN], keys[BEGIN + 1]
    _absorb(values, keys, elements)
    finish(keys, elements)
    absorb_lists(offsets, _valid(array), elements, keys, state)


def _absorb_structs(array: pa.StructArray, keys: Any, state: Any) -> None:
    """Whether the struct is null, then its members; those of a null struct are null."""
    _absorb_numbers(pc.if_else(array.is_valid(), 1, pa.scalar(None, pa.int64())), keys, state)
    for member in array.flatten():
        _absorb(member, keys, state)


def _absorb_decoded(array: pa.Array, keys: Any, state: Any) -> None:
    """The values of an extension type, a dictionary or runs."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    elif pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    else:
        array = pc.run_end_decode(array)
    _absorb(array, keys, state)


def _is_list(type_: pa.DataType) -> bool:
    kinds: Iterable[Callable[[pa.DataType], bool]] = (
        pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view,
    )  # fmt: skip
    return any(is_kind(type_) for is_kind in kinds)


def _is_number(type_: pa.DataType) -> bool:
    """A whole number, or a time stored as one."""
    return pt.is_integer(type_) or pt.is_boolean(type_) or (pt.is_temporal(type_) and not pt.is_interval(type_))


def _is_text(type_: pa.DataType) -> bool:
    return type_ in (
        pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.null(),
    )  # fmt: skip


def _is_encoded(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.BaseExtensionType) or pt.is_dictionary(type_) or pt.is_run_end_encoded(type_)


_ABSORB: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, Any, Any], None]], ...] = (
    (_is_encoded, _absorb_decoded),
    (_is_number, _absorb_numbers),
    (_is_text, _absorb_texts),
    (pt.is_floating, _absorb_floats),
    (lambda type_: pt.is_decimal(type_) or pt.is_fixed_size_binary(type_), _absorb_fixed),
    (_is_list, _absorb_lists),
    (pt.is_struct, _absorb_structs),
)

_SIGN = -(1 << 63)
"""Turns the order of 64 bits without a sign into that of numbers with one."""

_MAX_DIGITS = 38
"""Digits of a decimal of 128 bits."""


def _values(array: pa.Array, type_: Any) -> Any:
    """The numbers of an array of 64-bit values; where it is null, whatever the buffer holds."""
    import numpy as np

    return np.frombuffer(array.buffers()[1], type_)[array.offset : array.offset + len(array)]


def _valid(array: pa.Array) -> Any:
    """bool[rows]: which values are not null; empty if all are."""
    import numpy as np

    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.empty(0, bool)
