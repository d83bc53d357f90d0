"""Captures → fields: which type each has, and several captures of one name as one column.

Captures of one name of which at most one can take part in a match (they stand in different branches of a choice)
are one value. Where several can take part at once the field is an array of those that did, captures of one
spelling together, as Logstash gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

import pyarrow as pa

from etl.columns.texts import materialize_array
from etl.scanner.tree import Capture, Chars, Choice, Node, Repeat, captures, children, rename_captures

_TYPES = {"": pa.string(), "int": pa.int64(), "float": pa.float64()}


def field_types(tree: Node) -> Mapping[str, pa.DataType]:
    """The fields of one pattern in the order of their first captures."""
    known = _cache.get(id(tree))
    if known is None:
        if len(_cache) >= MAX_CACHED:
            _cache.clear()
        known = _cache[id(tree)] = tree, _field_types(tree)  # the tree is kept, so no other gets its id
    return known[1]


MAX_CACHED = 1024
_cache: dict[int, tuple[Node, Mapping[str, pa.DataType]]] = {}
"""By the identity of trees: the compiler returns one tree for one pattern, and the hash of a tree takes a walk over it."""


def _field_types(tree: Node) -> Mapping[str, pa.DataType]:
    found = captures(tree)
    casts = _by_field(found)
    together = _pairs_together(tree, [capture.field for capture in found])
    types = {}
    for field, numbers in casts.items():
        of = {_TYPES[cast] for cast in numbers.values()}
        type_ = of.pop() if len(of) == 1 else pa.string()
        several = any(frozenset(pair) in together for pair in combinations(numbers, 2))
        types[field] = pa.list_(type_) if several else type_
    return types


def conflicts(tree: Node) -> Iterable[str]:
    """Fields that one pattern captures with different types."""
    for field, casts in _by_field(captures(tree)).items():
        if len(set(casts.values())) > 1:
            kinds = " and ".join(sorted(cast or "string" for cast in set(casts.values())))
            yield f"field {field!r} is captured as {kinds}"


def merged_types(patterns: Sequence[Mapping[str, pa.DataType]]) -> dict[str, pa.DataType]:
    """The fields of several patterns: an array where one of them gives an array, text where they disagree."""
    merged: dict[str, pa.DataType] = {}
    for types in patterns:
        for field, type_ in types.items():
            merged[field] = _common(merged.get(field, type_), type_)
    return merged


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other:
        return one
    inner_one = one.value_type if pa.types.is_list(one) else one
    inner_other = other.value_type if pa.types.is_list(other) else other
    inner = inner_one if inner_one == inner_other else pa.string()
    return pa.list_(inner) if pa.types.is_list(one) or pa.types.is_list(other) else inner


def with_distinct_names(tree: Node) -> Node:
    """The tree with a name of its own for each capture of a field that is an array: ``field#0``, ``field#1`` …"""
    types = field_types(tree)
    names = {
        number: f"{field}#{index}"
        for field, casts in _by_field(captures(tree)).items()
        if pa.types.is_list(types[field])
        for index, number in enumerate(_in_spelling_order(casts))
    }
    fields = [names.get(number, capture.field) for number, capture in enumerate(captures(tree))]
    return rename_captures(tree, iter(fields))


def compile_gather(
    names: Sequence[str], types: Mapping[str, pa.DataType]
) -> Callable[[Mapping[str, pa.Array]], dict[str, pa.Array]]:
    """Captured texts by the names that `with_distinct_names` gave → the fields with these types."""
    sources = {field: [name for name in names if name.partition("#")[0] == field] for field in types}

    def gather(captured: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        return {field: _field([captured[name] for name in mine], types[field]) for field, mine in sources.items()}

    return gather


def _field(texts: list[pa.Array], type_: pa.DataType) -> pa.Array:
    if pa.types.is_list(type_):
        return _list_column([materialize_array(text) for text in texts], type_)
    return _as(type_, texts[0])


def _as(type_: pa.DataType, texts: pa.Array) -> pa.Array:
    """Captured texts as text or numbers; ``12ms`` is 12, and null what begins like no number or does not fit."""
    if type_ == pa.string():
        return texts
    from etl.columns.numbers import real_numbers, whole_numbers

    return whole_numbers(texts) if type_ == pa.int64() else real_numbers(texts)


def _by_field(numbered: Sequence[Capture]) -> dict[str, dict[int, str]]:
    """Field → capture number → cast."""
    found: dict[str, dict[int, str]] = {}
    for number, capture in enumerate(numbered):
        found.setdefault(capture.field, {})[number] = capture.cast
    return found


def _in_spelling_order(casts: Mapping[int, str]) -> list[int]:
    order = list(dict.fromkeys(casts.values()))
    return sorted(casts, key=lambda number: (order.index(casts[number]), number))


def _pairs_together(tree: Node, fields: Sequence[str]) -> set[frozenset[int]]:
    """Pairs of captures of one field that can both take part in a match; ``fields`` are those of all captures."""
    if len(set(fields)) == len(fields):
        return set()
    found: set[frozenset[int]] = set()
    numbers = iter(range(len(fields)))

    def below(node: Node, looped: bool) -> list[int]:
        mine = [next(numbers)] if isinstance(node, Capture) else []
        looped = looped or (isinstance(node, Repeat) and node.maximum != 1)
        parts = [below(child, looped) for child in children(node) if type(child) is not Chars]
        groups = parts if isinstance(node, Choice) and not looped else []
        if groups:
            return [number for part in parts for number in part]
        for part in parts:
            found.update(frozenset((a, b)) for a in mine for b in part if fields[a] == fields[b])
            mine = mine + part
        return mine

    below(tree, False)
    return found


def _list_column(texts: list[pa.StringArray], type_: pa.DataType) -> pa.ListArray:
    """Texts side by side → an array a row, without nulls; no text at all is null."""
    import numpy as np

    values = [_as(type_.value_type, text) for text in texts]
    rows, many = len(values[0]), len(values)
    order = np.arange(rows * many).reshape(many, rows).T.ravel()
    flat = pa.concat_arrays(values).take(pa.array(order))
    present = flat.is_valid().to_numpy(zero_copy_only=False)
    counts = present.reshape(rows, many).sum(axis=1) if rows else np.zeros(0, np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), flat.drop_null(), type=type_, mask=pa.array(counts == 0) if rows else None)
