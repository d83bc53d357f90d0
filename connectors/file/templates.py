"""Paths with ``{field}`` and ``{yyyy-MM-dd}`` in them: which file or folder an event belongs to.

The literal text before the first brace is the prefix that no value can lead out of: whatever an event holds is
percent-encoded into a single name.
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

from etl.columns.texts import owned

NULL = "__null__"
"""What stands for a value that is null or empty."""

LONGEST_NAME = 120
"""Characters of one encoded value; a longer one is cut and told apart by a hash."""

_BRACES = re.compile(r"\{([^{}]*)\}")
_DATE = re.compile(r"(?:yyyy|MM|dd|HH|mm)(?:[-_./]?(?:yyyy|MM|dd|HH|mm))*")
_UNITS = (("mm", "%M", "minute"), ("HH", "%H", "hour"), ("dd", "%d", "day"), ("MM", "%m", "month"), ("yyyy", "%Y", "year"))
_EXTENSION = re.compile(r"[^/{}]*\.[A-Za-z][^/{}]*")


class Group(NamedTuple):
    """Events of one batch that go to the same place, in their order."""

    key: str
    events: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Template:
    """A path cut at its braces: even pieces are literal, odd ones name a field or spell a date."""

    path: str
    pieces: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it takes values from."""
        return tuple(name for name in self.pieces[1::2] if not is_date(name))

    @property
    def dates(self) -> tuple[str, ...]:
        """The date patterns it spells."""
        return tuple(name for name in self.pieces[1::2] if is_date(name))

    @property
    def prefix(self) -> str:
        """The literal folder that everything lies in; empty when the path starts with a brace."""
        return self.path if len(self.pieces) == 1 else self.pieces[0].rpartition("/")[0]

    @property
    def is_folder(self) -> bool:
        """True when parts are made in it: it ends in a slash, or has braces and no extension behind the last."""
        last = self.pieces[-1]
        return last.endswith("/") or (len(self.pieces) > 1 and not _EXTENSION.fullmatch(last.rpartition("/")[2]))

    def groups(self, batch: pa.RecordBatch, time_field: str | None) -> Iterator[Group]:
        """The batch by expanded path. One copy when there is more than one path, none otherwise."""
        import numpy as np

        if len(self.pieces) == 1:
            yield Group(self.path, batch)
            return
        names = [_names(batch, piece, time_field) for piece in self.pieces[1::2]]
        rows = np.zeros(batch.num_rows, dtype=np.int64)
        for texts, codes in names:
            rows = np.unique(rows * len(texts) + codes, return_inverse=True)[1]
        order = np.argsort(rows, kind="stable")
        starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
        sorted_batch = batch if len(starts) == 1 else owned(batch).take(pa.array(order))
        for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            values = [texts[codes[order[start]]] for texts, codes in names]
            yield Group(self._expand(values), sorted_batch.slice(start, end - start))

    def _expand(self, values: list[str]) -> str:
        return "".join(literal + value for literal, value in zip(self.pieces[::2], [*values, ""], strict=True))


def parse_template(path: str) -> Template:
    """A path, taken apart."""
    return Template(path, tuple(_BRACES.split(path)))


def example(template: Template) -> str:
    """A path as the template makes them."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    values = [now.strftime(_directives(piece)[0]) if is_date(piece) else "x" for piece in template.pieces[1::2]]
    return "".join(literal + value for literal, value in zip(template.pieces[::2], [*values, ""], strict=True))


def _directives(pattern: str) -> tuple[str, str]:
    """``yyyy-MM-dd`` → ``%Y-%m-%d`` and its smallest unit."""
    unit = ""
    for letters, directive, name in _UNITS:
        if letters in pattern:
            pattern, unit = pattern.replace(letters, directive), unit or name
    return pattern, unit


def is_date(name: str) -> bool:
    """True for what braces hold when they spell a date, such as ``yyyy-MM-dd``."""
    return _DATE.fullmatch(name) is not None


def safe_name(value: str | None) -> str:
    """Any text → one file name that leads nowhere else; different texts give different names."""
    if not value:
        return NULL
    name = quote(value, safe="@+=,")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 17]}-{hashlib.sha256(value.encode()).hexdigest()[:16]}"
    return name


def _names(batch: pa.RecordBatch, piece: str, time_field: str | None) -> tuple[list[str], Any]:
    """The distinct names a piece takes, and which of them each event has (numpy)."""
    if is_date(piece):
        return date_names(batch, piece, time_field)
    texts = batch.column(piece)
    return coded(texts, lambda distinct: [safe_name(text) for text in distinct.cast(pa.string()).to_pylist()])


def date_names(batch: pa.RecordBatch, pattern: str, time_field: str | None) -> tuple[list[str], Any]:
    """As `coded`: each event's date, by its own time or (without a field) by now."""
    import numpy as np

    format_, unit = _directives(pattern)
    if time_field is None:
        return [datetime.now(UTC).strftime(format_)], np.zeros(batch.num_rows, dtype=np.int64)
    times = batch.column(time_field)
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp(times.type.unit))
    floor = pc.floor_temporal(times, unit=unit)
    return coded(floor, lambda distinct: [text or NULL for text in pc.strftime(distinct, format=format_).to_pylist()])


def coded(values: pa.Array, name: Any) -> tuple[list[str], Any]:
    """Distinct values by name, so that Python sees each value of a batch once, not each event; and which each event has."""
    encoded = values.dictionary_encode(null_encoding="encode") if not pa.types.is_null(values.type) else None
    if encoded is None:
        import numpy as np

        return [NULL], np.zeros(len(values), dtype=np.int64)
    return name(encoded.dictionary), encoded.indices.to_numpy(zero_copy_only=False)
