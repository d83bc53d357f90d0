"""Parameters of URL queries (``a=1&b=2``) → columns, all queries of a column at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import materialize_array
from parsers.common.text_types import reader
from parsers.common.view_values import replace_rows
from parsers.decode.charsets import reader as text_reader
from parsers.decode.encodings import decoder

_CONTROL = r"[\x00-\x1f]"


class QueryPairs(NamedTuple):
    """Names and values of all queries, in order."""

    row: Any
    """int64[m]: the query each is from."""

    names: pa.StringArray
    values: pa.StringArray


class Parameters:
    """Declared parameters, by name with the field each fills and its type, and the field for all others."""

    def __init__(self, declared: Mapping[str, tuple[str, pa.DataType]], rest: str | None) -> None:
        self._declared = declared
        self._rest = rest

    def columns(self, queries: pa.Array) -> dict[str, pa.Array]:
        """A column for each declared parameter, null where it is missing or does not fit, and the rest."""
        rows = len(queries)
        pairs = _split_queries(materialize_array(queries).cast(pa.string()))
        columns = {field: _make_column(pairs, name, type_, rows) for name, (field, type_) in self._declared.items()}
        if self._rest is not None:
            columns[self._rest] = _make_rest(pairs, list(self._declared), rows)
        return columns


def _split_queries(queries: pa.StringArray) -> QueryPairs:
    import numpy as np

    pieces = pc.split_pattern(pc.fill_null(queries, ""), "&")
    row = np.asarray(pc.list_parent_indices(pieces))
    texts = pieces.flatten()
    there = pc.not_equal(texts, "")
    texts, row = texts.filter(there), row[np.asarray(there)]
    split = pc.split_pattern(texts, "=", max_splits=1)
    ends = np.asarray(split.offsets)
    both = split.flatten()
    has_value = np.diff(ends) > 1
    values = both.take(pa.array(ends[:-1] + 1, mask=~has_value))
    names, values = both.take(pa.array(ends[:-1])), pc.fill_null(values, "")
    return QueryPairs(row, decode_percent(names, "form"), decode_percent(values, "form"))


def decode_percent(texts: pa.StringArray, encoding: str = "percent") -> pa.StringArray:
    """The texts with ``%41`` as A, in ``form`` also with blanks for plus signs; bytes that are no UTF-8 become U+FFFD."""
    marked = pc.match_substring_regex(texts, "[%+]" if encoding == "form" else "%")
    if not marked.true_count:
        return texts
    data, _ = decoder(encoding)(texts)
    return text_reader("utf-8", "replace")(data).cast(pa.string())


def _make_column(pairs: QueryPairs, name: str, type_: pa.DataType, rows: int) -> pa.Array:
    import numpy as np

    mine = np.flatnonzero(np.asarray(pc.equal(pairs.names, name)))
    row, texts = pairs.row[mine], pairs.values.take(pa.array(mine))
    if pa.types.is_list(type_):
        values, _ = reader(type_.value_type)(texts)
        counts = np.bincount(row, minlength=rows)
        ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), values, type=type_, mask=pa.array(counts == 0))
    values, _ = reader(type_)(texts)
    place = np.full(rows, -1, np.int64)
    place[row[::-1]] = np.arange(len(row))[::-1]  # the first of a name is written last
    return values.take(pa.array(place, mask=place < 0))


# ── The rest ──────────────────────────────────────────────────────────────────────────────────────


def _make_rest(pairs: QueryPairs, declared: list[str], rows: int) -> pa.StringArray:
    import numpy as np

    left = np.asarray(pc.invert(pc.is_in(pairs.names, pa.array(declared, pa.string()))))
    pairs = QueryPairs(pairs.row[left], pairs.names.filter(pa.array(left)), pairs.values.filter(pa.array(left)))
    counts = np.bincount(pairs.row, minlength=rows)
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    members = pc.binary_join_element_wise(_escape(pairs.names), _escape(pairs.values), '":"')
    members = pc.binary_join_element_wise('"', members, '"', "")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), members), ",")
    texts = pc.if_else(pa.array(counts > 0), pc.binary_join_element_wise("{", joined, "}", ""), None)
    return _write_rare_rows(texts, pairs, ends)


def _escape(texts: pa.StringArray) -> pa.StringArray:
    return pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')


def _write_rare_rows(texts: pa.StringArray, pairs: QueryPairs, ends: Any) -> pa.StringArray:
    """Rows with control characters or a repeated name, which are rare, are written one by one."""
    import numpy as np

    odd = pc.or_(pc.match_substring_regex(pairs.names, _CONTROL), pc.match_substring_regex(pairs.values, _CONTROL))
    hard = np.unique(np.concatenate((pairs.row[np.asarray(odd)], _find_repeated(pairs))))
    if not len(hard):
        return texts
    written = [_write_object(pairs, int(ends[row]), int(ends[row + 1])) for row in hard]
    return replace_rows(texts, hard, pa.array(written, pa.string()))


def _find_repeated(pairs: QueryPairs) -> Any:
    """Rows with a repeated name."""
    import numpy as np

    names = np.asarray(pairs.names.dictionary_encode().indices).astype(np.int64)
    keys = np.sort(pairs.row * (len(names) + 1) + names)
    return keys[1:][keys[1:] == keys[:-1]] // (len(names) + 1)


def _write_object(pairs: QueryPairs, begin: int, end: int) -> str:
    members: dict[str, list[str]] = {}
    names, values = pairs.names.slice(begin, end - begin), pairs.values.slice(begin, end - begin)
    for name, value in zip(names.to_pylist(), values.to_pylist(), strict=True):
        members.setdefault(name, []).append(value)
    plain = {name: found[0] if len(found) == 1 else found for name, found in members.items()}
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
