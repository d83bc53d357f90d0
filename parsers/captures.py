"""Captures → fields: which type each has, and several captures of one name as one column.

Captures of one name of which at most one can take part in a match (they stand in different branches of a choice)
are one value. Where several can take part at once the field is an array of those that did, captures of one
spelling together, as Logstash gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

import pyarrow as pa
import pyarrow.compute as pc

from parsers.regex_tree import Capture, Choice, Node, Repeat, captures, children

_TYPES = {"": pa.string(), "int": pa.int64(), "float": pa.float64()}


def field_types(tree: Node) -> dict[str, pa.DataType]:
    """The fields of one pattern in the order of their first captures."""
    casts = _by_field(tree)
    together = _together(tree)
    types = {}
    for field, numbers in casts.items():
        of = {_TYPES[cast] for cast in numbers.values()}
        type_ = of.pop() if len(of) == 1 else pa.string()
        several = any(frozenset(pair) in together for pair in combinations(numbers, 2))
        types[field] = pa.list_(type_) if several else type_
    return types


def conflicts(tree: Node) -> Iterable[str]:
    """Fields that one pattern captures with different types."""
    for field, casts in _by_field(tree).items():
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


def gathering(tree: Node, types: Mapping[str, pa.DataType]) -> Callable[[list[pa.StringArray]], dict[str, pa.Array]]:
    """Compile once a task: captured texts → the fields of this pattern with these types."""
    numbers = {field: _in_spelling_order(casts) for field, casts in _by_field(tree).items()}

    def gather(captured: list[pa.StringArray]) -> dict[str, pa.Array]:
        fields = {}
        for field, mine in numbers.items():
            texts = [captured[n] for n in mine]
            type_ = types[field]
            fields[field] = _listed(texts, type_) if pa.types.is_list(type_) else cast(_first(texts), type_)
        return fields

    return gather


def _by_field(tree: Node) -> dict[str, dict[int, str]]:
    """Field → capture number → cast."""
    found: dict[str, dict[int, str]] = {}
    for number, capture in enumerate(captures(tree)):
        found.setdefault(capture.field, {})[number] = capture.cast
    return found


def _in_spelling_order(casts: Mapping[int, str]) -> list[int]:
    order = list(dict.fromkeys(casts.values()))
    return sorted(casts, key=lambda number: (order.index(casts[number]), number))


def _together(tree: Node) -> set[frozenset[int]]:
    """Pairs of captures of one field that can both take part in a match."""
    found: set[frozenset[int]] = set()
    fields = [capture.field for capture in captures(tree)]
    numbers = iter(range(len(fields)))

    def below(node: Node, looped: bool) -> list[int]:
        mine = [next(numbers)] if isinstance(node, Capture) else []
        looped = looped or (isinstance(node, Repeat) and node.most != 1)
        parts = [below(child, looped) for child in children(node)]
        groups = parts if isinstance(node, Choice) and not looped else []
        if groups:
            return [number for part in parts for number in part]
        for part in parts:
            found.update(frozenset((a, b)) for a in mine for b in part if fields[a] == fields[b])
            mine = mine + part
        return mine

    below(tree, False)
    return found


def _first(texts: list[pa.StringArray]) -> pa.StringArray:
    return texts[0] if len(texts) == 1 else pc.coalesce(*texts)


def _listed(texts: list[pa.StringArray], type_: pa.DataType) -> pa.ListArray:
    """Texts side by side → an array a row, without nulls; no text at all is null."""
    import numpy as np

    values = [cast(text, type_.value_type) for text in texts]
    rows, many = len(values[0]), len(values)
    order = np.arange(rows * many).reshape(many, rows).T.ravel()
    flat = pa.concat_arrays(values).take(pa.array(order))
    present = flat.is_valid().to_numpy(zero_copy_only=False)
    counts = present.reshape(rows, many).sum(axis=1) if rows else np.zeros(0, np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), flat.drop_null(), type=type_, mask=pa.array(counts == 0) if rows else None)


# ── Numbers ───────────────────────────────────────────────────────────────────────────────────────


def cast(texts: pa.StringArray, type_: pa.DataType) -> pa.Array:
    """Texts → numbers: what begins like one, as Logstash reads it; null where nothing does or it does not fit."""
    if type_ == pa.string():
        return texts
    try:
        return pc.cast(texts, type_)
    except pa.ArrowInvalid:
        prefix = r"^\s*\+?(?P<n>-?[0-9]+)" if type_ == pa.int64() else r"^\s*\+?(?P<n>-?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)"
        numbers = pc.extract_regex(texts, prefix)
        texts = pc.struct_field(numbers, [0])
        texts = pc.if_else(pc.fill_null(numbers.is_valid(), False), texts, None)
    if type_ == pa.int64():
        return _whole(texts)
    return pc.cast(texts, type_)


def _whole(digits: pa.StringArray) -> pa.Int64Array:
    """Digits → int64; the few that are near the bounds are looked at one by one."""
    short = pc.less_equal(pc.binary_length(digits), 18)
    numbers = pc.cast(pc.if_else(pc.fill_null(short, True), digits, None), pa.int64())
    long = pc.fill_null(pc.invert(short), False)
    if not long.true_count:
        return numbers
    values = [int(text[:25]) for text in digits.filter(long).to_pylist()]
    fitting = pa.array([value if -(2**63) <= value < 2**63 else None for value in values], pa.int64())
    return pc.replace_with_mask(numbers, long, fitting)
