"""Converts the parameters of URL queries (``a=1&b=2``) to columns, for all queries of a column at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import materialize_array
from parsers.common.text_types import make_reader
from parsers.common.view_values import replace_rows
from parsers.decode.charsets import make_charset_reader as text_reader
from parsers.decode.encodings import make_decoder

_CONTROL = r"[\x00-\x1f]"


class QueryPairs(NamedTuple):
    """Names and values of the parameters of all queries, in order."""

    row: Any
    """int64[m]: the row of the query that each parameter is from."""

    names: pa.StringArray
    values: pa.StringArray


class Parameters:
    """Makes columns of parameters. ``declared`` maps a parameter to its field and type; ``rest`` is the field for all others."""

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
    has_text = pc.not_equal(texts, "")
    texts, row = texts.filter(has_text), row[np.asarray(has_text)]
    split = pc.split_pattern(texts, "=", max_splits=1)
    ends = np.asarray(split.offsets)
    parts = split.flatten()
    has_value = np.diff(ends) > 1
    values = parts.take(pa.array(ends[:-1] + 1, mask=~has_value))
    names, values = parts.take(pa.array(ends[:-1])), pc.fill_null(values, "")
    return QueryPairs(row, decode_percent(names, "form"), decode_percent(values, "form"))


def decode_percent(texts: pa.StringArray, encoding: str = "percent") -> pa.StringArray:
    """Decode ``%41`` to A, in ``form`` also with spaces for plus signs; bytes that are not UTF-8 become U+FFFD."""
    marked = pc.match_substring_regex(texts, "[%+]" if encoding == "form" else "%")
    if not marked.true_count:
        return texts
    data, _ = make_decoder(encoding)(texts)
    return text_reader("utf-8", "replace")(data).cast(pa.string())


def _make_column(pairs: QueryPairs, name: str, type_: pa.DataType, rows: int) -> pa.Array:
    import numpy as np

    matching = np.flatnonzero(np.asarray(pc.equal(pairs.names, name)))
    row, texts = pairs.row[matching], pairs.values.take(pa.array(matching))
    if pa.types.is_list(type_):
        values, _ = make_reader(type_.value_type)(texts)
        counts = np.bincount(row, minlength=rows)
        ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), values, type=type_, mask=pa.array(counts == 0))
    values, _ = make_reader(type_)(texts)
    first = np.full(rows, -1, np.int64)
    first[row[::-1]] = np.arange(len(row))[::-1]  # reversed: the first value of a row is written last and wins
    return values.take(pa.array(first, mask=first < 0))


# ── The rest ──────────────────────────────────────────────────────────────────────────────────────


def _make_rest(pairs: QueryPairs, declared: list[str], rows: int) -> pa.StringArray:
    import numpy as np

    is_other = np.asarray(pc.invert(pc.is_in(pairs.names, pa.array(declared, pa.string()))))
    pairs = QueryPairs(pairs.row[is_other], pairs.names.filter(pa.array(is_other)), pairs.values.filter(pa.array(is_other)))
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
    """Write the rows with control characters or a repeated name one by one; they are rare."""
    import numpy as np

    has_control = pc.or_(pc.match_substring_regex(pairs.names, _CONTROL), pc.match_substring_regex(pairs.values, _CONTROL))
    rare = np.unique(np.concatenate((pairs.row[np.asarray(has_control)], _find_repeated(pairs))))
    if not len(rare):
        return texts
    written = [_write_object(pairs, int(ends[row]), int(ends[row + 1])) for row in rare]
    return replace_rows(texts, rare, pa.array(written, pa.string()))


def _find_repeated(pairs: QueryPairs) -> Any:
    """Return the rows with a repeated name."""
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
