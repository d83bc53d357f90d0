"""Paths with ``{field}`` and ``{yyyy-MM-dd}``: the file or folder of each event.

Values cannot leave the prefix, the literal text before the first brace: they are percent-encoded to a single name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import materialize

NULL = "__null__"
"""Replaces a value that is null or empty."""

MAX_NAME_CHARS = 120
"""Longest encoded value, in characters; a longer one is truncated and gets a hash."""

_BRACES = re.compile(r"\{([^{}]*)\}")
_DATE = re.compile(r"(?:yyyy|MM|dd|HH|mm)(?:[-_./]?(?:yyyy|MM|dd|HH|mm))*")
_UNITS = (("mm", "%M", "minute"), ("HH", "%H", "hour"), ("dd", "%d", "day"), ("MM", "%m", "month"), ("yyyy", "%Y", "year"))
_EXTENSION = re.compile(r"[^/{}]*\.[A-Za-z][^/{}]*")


class PathGroup(NamedTuple):
    """Events of one batch with the same path, in order."""

    key: str
    events: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Template:
    """A path split at its braces: even pieces are literal, odd ones are a field or a date pattern."""

    path: str
    pieces: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields in the path."""
        return tuple(name for name in self.pieces[1::2] if not is_date_pattern(name))

    @property
    def dates(self) -> tuple[str, ...]:
        """Date patterns in the path."""
        return tuple(name for name in self.pieces[1::2] if is_date_pattern(name))

    @property
    def prefix(self) -> str:
        """Literal folder of all output; empty if the path starts with a brace."""
        return self.path if len(self.pieces) == 1 else self.pieces[0].rpartition("/")[0]

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of parts: it ends with a slash, or has braces and no extension after the last."""
        last = self.pieces[-1]
        return last.endswith("/") or (len(self.pieces) > 1 and not _EXTENSION.fullmatch(last.rpartition("/")[2]))

    def groups(self, batch: pa.RecordBatch, time_field: str | None) -> Iterator[PathGroup]:
        """Group the batch by expanded path. One copy if there is more than one path, none otherwise."""
        import numpy as np

        if len(self.pieces) == 1:
            yield PathGroup(self.path, batch)
            return
        names = [_names(batch, piece, time_field) for piece in self.pieces[1::2]]
        rows = np.zeros(batch.num_rows, dtype=np.int64)
        for texts, codes in names:
            rows = np.unique(rows * len(texts) + codes, return_inverse=True)[1]
        order = np.argsort(rows, kind="stable")
        starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
        sorted_batch = batch if len(starts) == 1 else materialize(batch).take(pa.array(order))
        for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            values = [texts[codes[order[start]]] for texts, codes in names]
            yield PathGroup(self._expand(values), sorted_batch.slice(start, end - start))

    def _expand(self, values: list[str]) -> str:
        return "".join(literal + value for literal, value in zip(self.pieces[::2], [*values, ""], strict=True))


def parse_template(path: str) -> Template:
    """Parse a path."""
    return Template(path, tuple(_BRACES.split(path)))


def example_path(template: Template) -> str:
    """Return an example of an expanded path."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    values = [now.strftime(_directives(piece)[0]) if is_date_pattern(piece) else "x" for piece in template.pieces[1::2]]
    return "".join(literal + value for literal, value in zip(template.pieces[::2], [*values, ""], strict=True))


def _directives(pattern: str) -> tuple[str, str]:
    """Convert ``yyyy-MM-dd`` to ``%Y-%m-%d``; also return its smallest unit."""
    unit = ""
    for letters, directive, name in _UNITS:
        if letters in pattern:
            pattern, unit = pattern.replace(letters, directive), unit or name
    return pattern, unit


def is_date_pattern(name: str) -> bool:
    """Return whether the content of braces is a date pattern, such as ``yyyy-MM-dd``."""
    return _DATE.fullmatch(name) is not None


def safe_name(value: str | None) -> str:
    """Encode any text as one file name; different texts give different names."""
    if not value:
        return NULL
    name = quote(value, safe="@+=,")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > MAX_NAME_CHARS:
        name = f"{name[: MAX_NAME_CHARS - 17]}-{hashlib.sha256(value.encode()).hexdigest()[:16]}"
    return name


def _names(batch: pa.RecordBatch, piece: str, time_field: str | None) -> tuple[list[str], Any]:
    """Return the distinct names of a piece, and which of them each event has (numpy)."""
    if is_date_pattern(piece):
        return date_names(batch, piece, time_field)
    texts = batch.column(piece)
    return encode_distinct(texts, lambda distinct: [safe_name(text) for text in distinct.cast(pa.string()).to_pylist()])


def date_names(batch: pa.RecordBatch, pattern: str, time_field: str | None) -> tuple[list[str], Any]:
    """Like `encode_distinct`, for each event's date: by its own time, or without a field by the current time."""
    import numpy as np

    format_, unit = _directives(pattern)
    if time_field is None:
        return [datetime.now(UTC).strftime(format_)], np.zeros(batch.num_rows, dtype=np.int64)
    times = batch.column(time_field)
    if pa.types.is_null(times.type):
        return [NULL], np.zeros(batch.num_rows, dtype=np.int64)
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp(times.type.unit))
    floor = pc.floor_temporal(times, unit=unit)
    return encode_distinct(floor, lambda distinct: [text or NULL for text in pc.strftime(distinct, format=format_).to_pylist()])


def encode_distinct(values: pa.Array, name: Any) -> tuple[list[str], Any]:
    """Return names of the distinct values, so that Python handles each value of a batch once, and which of them each event
    has.
    """
    encoded = values.dictionary_encode(null_encoding="encode") if not pa.types.is_null(values.type) else None
    if encoded is None:
        import numpy as np

        return [NULL], np.zeros(len(values), dtype=np.int64)
    return name(encoded.dictionary), encoded.indices.to_numpy(zero_copy_only=False)
