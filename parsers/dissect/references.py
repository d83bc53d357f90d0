"""References: names and values of a text. Declared names become columns, the others one JSON object a row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Pair: TypeAlias = tuple[pa.StringArray, pa.StringArray]
"""A name and a value for each row; both null where there is none."""

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def reference_columns(pairs: Sequence[Pair], declared: Sequence[str], rest: str) -> dict[str, pa.Array]:
    """A column for each declared name (of a repeated name the last value), and the others as JSON, null where there are none."""
    columns = {name: reduce(lambda found, pair: _choose(found, pair, name), pairs, _nulls(pairs)) for name in declared}
    members = [_member(pair, declared) for pair in pairs]
    joined = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, ""), 1)
    objects = pc.binary_join_element_wise("{", pc.if_else(pc.equal(joined, ""), None, joined), "}", "")
    return columns | {rest: objects}


def _nulls(pairs: Sequence[Pair]) -> pa.StringArray:
    return pa.nulls(len(pairs[0][0]), pa.string())


def _choose(found: pa.StringArray, pair: Pair, name: str) -> pa.StringArray:
    mine = pc.fill_null(pc.equal(pair[0], name), False)
    return pc.if_else(mine, pair[1], found)


def _member(pair: Pair, declared: Sequence[str]) -> pa.StringArray:
    """``,"name":"value"``, empty for declared names."""
    names, values = pair
    left = pc.if_else(pc.is_in(names, value_set=pa.array(declared, pa.string())), None, names)
    return pc.fill_null(pc.binary_join_element_wise(',"', _escape(left), '":"', _escape(values), '"', ""), "")


def _escape(texts: pa.StringArray) -> pa.StringArray:
    """The inside of a JSON string. The few texts that need escapes are written one by one."""
    needy = pc.match_substring_regex(texts, _NEEDS_ESCAPE)
    if not pc.any(needy).as_py():
        return texts
    written = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts.filter(needy).to_pylist()]
    return pc.replace_with_mask(texts, pc.fill_null(needy, False), pa.array(written, pa.string()))
