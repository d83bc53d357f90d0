"""The index for equal keys, prefixes and suffixes: a hash index whose matches are verified against the key.

Keys are stored in the order of their hashes. A directory gives the start of each bucket of about four keys, which are compared
one by one: numbers as numbers, texts by 16 further bits of the hash and then byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from etl.tables.hash_kernel import (
    TAG,
    count_buckets,
    find_beginnings,
    find_endings,
    find_numbers,
    find_texts,
    hash_numbers,
    hash_texts,
)
from etl.tables.keys import KeyForm, join_key_columns, to_addresses, to_numbers
from etl.tables.section_file import SectionFile

_KEYS_IN_BUCKET = 4


class NotAnAddressError(Exception):
    """A table whose first keys were all IPv4 addresses has another key: it must be read again, with text keys."""


@dataclass
class KeyCollector:
    """Collects the keys of a table while it is read. A ``form`` of None is set by the first keys."""

    form: KeyForm | None = None
    missing: int = 0
    """Rows without a key, which are left out."""
    _numbers: list[Any] = field(default_factory=list)
    _texts: list[pa.Array] = field(default_factory=list)

    def add(self, columns: Sequence[pa.Array]) -> Any | None:
        """Add the key columns of more rows. Returns which rows have a key (bool[n]), None for all. Raises NotAnAddressError."""
        keys = join_key_columns(columns)
        present = self._rows_with_key(keys)
        if present is not None:
            keys = keys.filter(pa.array(present))
        if pa.types.is_integer(keys.type) and self.form != "text":
            self.form = "number"
            self._numbers.append(keys.cast(pa.int64()).to_numpy())
        elif self._as_addresses(keys):
            self.form = "address"
        else:
            self.form = "text"
            self._texts.append(keys.cast(pa.large_string()))
        return present

    def _rows_with_key(self, keys: pa.Array) -> Any | None:
        """Which rows have a key; an empty text is not a key."""
        absent = np.asarray(keys.is_null())
        if not pa.types.is_integer(keys.type):
            absent = absent | (Texts.of(keys).length == 0)
        self.missing += int(absent.sum())
        return ~absent if absent.any() else None

    def _as_addresses(self, keys: pa.Array) -> bool:
        if self.form == "text" or not len(keys):
            return self.form == "address"
        numbers, others = to_addresses(Texts.of(keys))
        if others and self.form == "address":
            raise NotAnAddressError
        if not others:
            self._numbers.append(numbers.astype(np.uint32))
        return not others

    def sections(self, several: bool) -> tuple[dict[str, Any], Any, int]:
        """The index's arrays; the rows to store, in the file's order (int64[m]); and the number of rows with a repeated key.

        Without ``several`` only the first row of each key is stored.
        """
        self.form = self.form or "text"
        arrays, order, first = _text_sections(self._texts) if self.form == "text" else self._number_sections()
        again = len(order) - len(first)
        if again and several:
            arrays["rows"] = np.append(first, len(order)).astype(np.uint32)
        return arrays, order if several else order[first], again

    def _number_sections(self) -> tuple[dict[str, Any], Any, Any]:
        numbers = np.concatenate(self._numbers) if self._numbers else np.empty(0, np.int64)
        self._numbers.clear()
        order = _hash_order(_hash(numbers))
        numbers = numbers[order]
        first = _first_of_equal(numbers)
        keys = _as_32_bits(numbers if len(first) == len(numbers) else numbers[first])
        return _directory(_hash(keys)) | {"keys": keys}, order, first


class DomainCollector(KeyCollector):
    """Collects the keys of a table of domain names."""

    def add(self, columns: Sequence[pa.Array]) -> Any | None:
        """See `KeyCollector.add`."""
        return super().add([_normalized_domains(join_key_columns(columns))])


class ExactIndex:
    """Finds equal keys in a mapped table."""

    def __init__(self, sections: SectionFile) -> None:
        self.form: KeyForm = sections.about["form"]
        self._firsts = sections.numbers("firsts")
        self._shift = np.uint64(sections.about["shift"])
        if self.form != "text":
            self._keys = sections.numbers("keys")
            return
        self._ends = sections.numbers("ends")
        self._index = (self._firsts, self._shift, sections.numbers("tags"), self._ends, sections.address("bytes"))

    def find(self, columns: Sequence[pa.Array]) -> Any:
        """int64[n]: the number of each key among the table's, -1 where it is not there."""
        keys = join_key_columns(columns)
        found = np.empty(len(keys), np.int64)
        if self.form == "text":
            texts = Texts.of(keys)
            find_texts(texts.address, texts.length, self._index, np.empty((2, len(keys)), np.uint64), found)
            return found
        if self.form == "address":
            numbers, _ = to_addresses(Texts.of(keys))
            valid = numbers >= 0
        else:
            numbers, valid = to_numbers(keys)
        find_numbers(numbers, valid, self._firsts, self._shift, self._keys, np.empty(len(keys), np.uint32), found)
        return found


class PrefixIndex(ExactIndex):
    """Finds the longest key that a text begins with."""

    def __init__(self, sections: SectionFile) -> None:
        super().__init__(sections)
        self._sizes = np.unique(np.diff(self._ends.astype(np.int64)))[::-1].copy()

    def find(self, columns: Sequence[pa.Array]) -> Any:
        texts, found = Texts.of(columns[0]), np.empty(len(columns[0]), np.int64)
        find_beginnings(texts.address, texts.length, self._sizes, self._index, found)
        return found


class SuffixIndex(ExactIndex):
    """Finds the longest key that a domain name ends with, by whole labels."""

    def __init__(self, sections: SectionFile) -> None:
        super().__init__(sections)
        self._longest = np.int64(np.diff(self._ends.astype(np.int64)).max(initial=0))

    def find(self, columns: Sequence[pa.Array]) -> Any:
        texts, found = Texts.of(_normalized_domains(columns[0])), np.empty(len(columns[0]), np.int64)
        find_endings(texts.address, texts.length, self._longest, self._index, found)
        return found


def _normalized_domains(names: pa.Array) -> pa.Array:
    """Domain names in lower case (ASCII letters only, RFC 4343) and without the dot of the root (RFC 1034, 3.1)."""
    import pyarrow.compute as pc

    return pc.ascii_rtrim(pc.ascii_lower(names.cast(pa.string()) if names.type == pa.string_view() else names), ".")


def _hash(numbers: Any) -> Any:
    hashes = np.empty(len(numbers), np.uint64)
    hash_numbers(numbers, hashes)
    return hashes


def _hash_order(hashes: Any) -> Any:
    """uint32[n]: the rows in the order of their hashes."""
    return np.argsort(hashes, kind="stable").astype(np.uint32)


def _directory(hashes: Any) -> dict[str, Any]:
    """Where each bucket's keys begin, for hashes in order."""
    bits = bucket_bits(len(hashes))
    firsts = np.zeros((1 << bits) + 1, np.uint32)
    count_buckets(hashes, np.uint64(64 - bits), firsts)
    return {"firsts": np.cumsum(firsts, dtype=np.uint32)}


def bucket_bits(keys: int) -> int:
    """Number of hash bits that select a bucket."""
    return max(1, (keys // _KEYS_IN_BUCKET).bit_length())


def _first_of_equal(ordered: Any) -> Any:
    """int64[m]: the first index of each group of equal neighbours."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.int64)


def _as_32_bits(numbers: Any) -> Any:
    """The numbers as uint32 if they fit."""
    if numbers.dtype == np.uint32:
        return numbers
    for type_ in (np.uint32, np.int32):
        bounds = np.iinfo(type_)
        if not len(numbers) or (numbers.min() >= bounds.min and numbers.max() <= bounds.max):
            return numbers.astype(type_)
    return numbers


def _text_sections(chunks: list[pa.Array]) -> tuple[dict[str, Any], Any, Any]:
    whole = pa.chunked_array(chunks, pa.large_string()).combine_chunks() if chunks else pa.array([], pa.large_string())
    chunks.clear()
    texts = Texts.of(whole)
    hashes = np.empty(len(whole), np.uint64)
    hash_texts(texts.address, texts.length, hashes)
    order = _sort_by_hash(hashes, whole)
    hashes = hashes[order]
    ordered = whole.take(pa.array(order))
    first = _first_texts(hashes, ordered)
    keys = ordered if len(first) == len(order) else ordered.take(pa.array(first))
    hashes = hashes[first]
    ends = np.frombuffer(keys.buffers()[1], np.int64)[: len(keys) + 1] if len(keys) else np.zeros(1, np.int64)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8) if len(keys) else np.empty(0, np.uint8)
    stored = {"tags": (hashes & TAG).astype(np.uint16), "ends": _as_32_bit_ends(ends), "bytes": data[: ends[-1]]}
    return _directory(hashes) | stored, order, first


def _sort_by_hash(hashes: Any, texts: pa.Array) -> Any:
    """Row numbers sorted by hash; different texts with the same hash are sorted by text."""
    order = _hash_order(hashes)
    ordered = hashes[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(again):
        return order
    twins = order[np.union1d(again, again + 1)]  # only rows that share a hash: the rows of one key, mostly
    by_text = (
        sorted(twins.tolist(), key=lambda row: (hashes[row], texts[row].as_py(), row))
        if _collide(hashes, texts, twins)
        else twins
    )
    order[np.union1d(again, again + 1)] = by_text
    return order


def _collide(hashes: Any, texts: pa.Array, rows: Any) -> bool:
    some = texts.take(pa.array(rows))
    same_hash = hashes[rows[1:]] == hashes[rows[:-1]]
    other_text = ~np.asarray(_equal_neighbours(some))
    return bool((same_hash & other_text).any())


def _first_texts(hashes: Any, ordered: pa.Array) -> Any:
    if not len(hashes):
        return np.empty(0, np.int64)
    same = hashes[1:] == hashes[:-1]
    if not same.any():
        return np.arange(len(hashes))
    return np.flatnonzero(np.append(True, ~(same & np.asarray(_equal_neighbours(ordered)))))


def _equal_neighbours(texts: pa.Array) -> Any:
    import pyarrow.compute as pc

    return pc.equal(texts.slice(1), texts.slice(0, len(texts) - 1)).to_numpy(zero_copy_only=False)


def _as_32_bit_ends(ends: Any) -> Any:
    return ends.astype(np.uint32) if ends[-1] < 1 << 32 else ends
