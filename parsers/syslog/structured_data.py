"""Structured data → columns: declared parameters, and the others as JSON.

A kernel reads all rows. Python writes the JSON of rows that repeat a name, which RFC 5424 allows of parameters, or that have
very many (50,000 rows/s a core): a repeated parameter becomes an array.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import MAX_OFFSET, Texts, make_span_views, materialize_array, take_rows
from parsers.common.view_values import replace_rows

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

STRICT_NAME, LONGEST_NAME = 32, 128
"""Maximum number of bytes of a name: in RFC 5424, and unless ``strict``."""

_PIECE = re.compile(rb'\[([^\s=\]"]+)|\s+([^\s=\]"]+)\s*=\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb'\\(["\\\]])')


@dataclass(frozen=True)
class StructuredData:
    """The parameters of a column of structured data."""

    texts: pa.Array
    paths: tuple[str, ...]
    kinds: Array
    spans: Array
    """int64[n, paths, 2]: addresses, -1 where a declared parameter is missing."""

    escaped: Array
    controls: Array
    stops: Array
    """int64[n]: the byte at which a malformed text is wrong."""

    @property
    def wrong(self) -> Array:
        """bool[n]: the rows whose text is malformed."""
        from parsers.syslog.structured_data_kernel import WRONG

        return self.kinds == WRONG

    def values(self, path: str) -> pa.Array:
        """A declared parameter's values without their escapes; null where it is missing."""
        import numpy as np

        located = Texts.of(self.texts)
        at = self.spans[:, self.paths.index(path)]
        starts = np.where(at[:, 0] < 0, -1, at[:, 0] - located.address.view(np.int64)).astype(np.int32)
        ends = np.where(starts < 0, 0, at[:, 1] - located.address.view(np.int64)).astype(np.int32)
        views = make_span_views(starts, ends, located)
        if not (self.escaped & (starts >= 0)).any():
            return views
        plain = pc.replace_substring_regex(materialize_array(views).view(pa.binary()), rb'\\(["\\\]])', rb"\1")
        return plain.view(pa.string())

    def rest(self) -> pa.StringArray:
        """The undeclared parameters: an object by element of objects by parameter; null where none is left."""
        import numpy as np

        from parsers.syslog.structured_data_kernel import PLAIN, REPEATED
        from parsers.syslog.undeclared_kernel import write_rest

        located = Texts.of(self.texts)
        plain = self.kinds == PLAIN
        out = np.empty(int((located.length[plain] * 3 + self.controls[plain] * 5 + 2).sum()), np.uint8)
        ends = np.zeros(len(plain) + 1, np.int64)
        write_rest(located.address, located.length, self.kinds, self.spans, np.uint64(out.ctypes.data), ends[1:])
        rest = _texts(out, ends)
        rows = np.flatnonzero(self.kinds == REPEATED)
        if not len(rows):
            return rest
        texts = pa.array([rest_json(text, self.paths) for text in self._raw(rows)], pa.binary()).view(pa.string())
        return replace_rows(rest, rows, texts.cast(rest.type))

    def _raw(self, rows: Array) -> list[bytes]:
        return materialize_array(take_rows(self.texts, rows)).cast(pa.large_binary()).to_pylist()


def read_structured_data(texts: pa.Array, paths: Sequence[str], strict: bool) -> StructuredData:
    """Find declared parameters in a column of structured data, which is null in rows without any."""
    import numpy as np

    from parsers.syslog.structured_data_kernel import MAX_NAMES, REPEATED, WRONG, find_parameters

    located, rows = Texts.of(texts), len(texts)
    names = [path.encode() for path in paths]
    bounds = np.cumsum([0, *map(len, names)]).astype(np.int64)
    text = np.frombuffer(b"".join(names) or b"\0", np.uint8)
    kinds, escaped = np.empty(rows, np.uint8), np.empty(rows, np.bool_)
    spans, known_names = np.full((rows, len(paths), 2), -1, np.int64), np.empty((2, 2, MAX_NAMES), np.int64)
    controls, stops = np.empty(rows, np.int64), np.empty(rows, np.int64)
    max_name_length = STRICT_NAME if strict else LONGEST_NAME
    find_parameters(
        located.address,
        located.length,
        strict,
        max_name_length,
        text,
        bounds,
        spans,
        known_names,
        kinds,
        escaped,
        controls,
        stops,
    )
    found = StructuredData(texts, tuple(paths), kinds, spans, escaped, controls, stops)
    if strict:
        for row in np.flatnonzero(kinds == REPEATED):
            if _repeats_element(found._raw(np.array([row]))[0]):
                kinds[row] = WRONG
    return found


def _repeats_element(text: bytes) -> bool:
    names = [found[1] for found in _PIECE.finditer(text) if found[1] is not None]
    return len(names) != len(set(names))


def rest_json(text: bytes, paths: Sequence[str]) -> bytes | None:
    """The undeclared parameters of well-formed structured data as JSON; of a declared one, all values but the first."""
    declared = {path.encode() for path in paths}
    left: dict[bytes, dict[bytes, list[bytes]]] = {}
    taken_from: set[bytes] = set()
    element = b""
    for found in _PIECE.finditer(text):
        if found[1] is not None:
            element = found[1]
            left.setdefault(element, {})
        elif (path := element + b"." + found[2]) in declared:
            declared.remove(path)
            taken_from.add(element)
        else:
            left[element].setdefault(found[2], []).append(_ESCAPE.sub(rb"\1", found[3]))
    rest = {_decode(name): _members(params) for name, params in left.items() if params or name not in taken_from}
    return json.dumps(rest, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape") if rest else None


def _members(params: dict[bytes, list[bytes]]) -> dict[str, str | list[str]]:
    texts = {_decode(name): [_decode(value) for value in values] for name, values in params.items()}
    return {name: values[0] if len(values) == 1 else values for name, values in texts.items()}


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _texts(out: Array, ends: Array) -> pa.Array:
    """Texts end to end, null where empty."""
    import numpy as np

    type_, width = (pa.string(), np.int32) if ends[-1] <= MAX_OFFSET else (pa.large_string(), np.int64)
    bits = np.packbits(ends[1:] != ends[:-1], bitorder="little")
    buffers = [pa.py_buffer(bits), pa.py_buffer(ends.astype(width)), pa.py_buffer(out).slice(0, int(ends[-1]))]
    return pa.Array.from_buffers(type_, len(ends) - 1, buffers)
