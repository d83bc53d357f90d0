"""Record batches as JSON lines.

Types without a JSON form: a timestamp is ISO 8601 text with six digits of a second (``2026-01-02T03:04:05.000120Z``; without
``Z`` if it has no zone), a date ``2026-01-02``, a decimal the text of its digits, bytes are Base64, NaN and infinities are
null. Null members are kept, so that every line has the same members; with ``nulls="omit"`` they are omitted, and objects that
have no other members, too.

The kernel `etl.columns.json.lines` writes the lines, directly from captures if texts are views. Columns that it cannot read
(floats, nested values, bytes) are converted to JSON text first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from etl.api import HIDDEN, nested_schema
from etl.columns.json.values import as_texts, iso_times

if TYPE_CHECKING:
    from etl.columns.json.lines import JsonWriter, Lines

MAX_CACHED_PLANS = 64
"""Maximum number of schemas whose writers are cached."""

Conversion = Callable[[pa.Array], pa.Array]

Nulls = Literal["keep", "omit"]


class Frame(NamedTuple):
    """Text around each event's object: texts alternating with values that are JSON strings, and a text after it."""

    front: tuple[str, ...] = ("",)
    """One more text than there are values."""

    back: str = ""


PLAIN = Frame()
"""The object alone."""


def encode(batch: pa.RecordBatch, nulls: Nulls = "keep") -> memoryview:
    """Convert a flat batch to one JSON object a line, without hidden columns."""
    return lines(batch, nulls).text


def sizes(batch: pa.RecordBatch, nulls: Nulls = "keep") -> pa.Array:
    """Return the bytes of each event's line with its newline (int64). Costs as much as `encode`."""
    return pa.array(lines(batch, nulls).lengths)


def lines(batch: pa.RecordBatch, nulls: Nulls) -> Lines:
    """Return the lines with their lengths."""
    return framed_lines(batch, PLAIN, nulls)


def framed_lines(batch: pa.RecordBatch, frame: Frame, nulls: Nulls) -> Lines:
    """The same in a frame."""
    written = write_framed(batch, frame)
    return written if nulls == "keep" else _without_nulls(written)


def merged_lines(parts: Sequence[tuple[Any, Lines]]) -> Lines:
    """The lines of one batch from those of parts of its rows; each part has a mask of its rows (bool[rows])."""
    import numpy as np

    from etl.columns.json.lines import Lines

    if len(parts) == 1:
        return parts[0][1]
    rows = np.argsort(np.concatenate([np.flatnonzero(mask) for mask, _ in parts]), kind="stable")
    merged = pa.concat_arrays([as_array(lines) for _, lines in parts]).take(pa.array(rows))
    offsets = np.frombuffer(merged.buffers()[1], np.int64)[: len(merged) + 1]
    return Lines(memoryview(merged.buffers()[2])[: int(offsets[-1])], np.diff(offsets))


def as_array(lines: Lines) -> pa.Array:
    """Return the lines with their newlines (large_binary)."""
    import numpy as np

    offsets = np.append(0, np.cumsum(lines.lengths)).astype(np.int64)
    return pa.Array.from_buffers(pa.large_binary(), len(lines.lengths), [None, pa.py_buffer(offsets), pa.py_buffer(lines.text)])


def _without_nulls(written: Lines) -> Lines:
    import numpy as np

    from etl.columns.json.lines import Lines
    from etl.columns.json.nulls import DEEPEST, leave_out

    text = np.frombuffer(written.text, np.uint8)
    out, ends = np.empty(len(text), np.uint8), np.empty(len(written.lengths), np.int64)
    indexes, marks = np.zeros((2, DEEPEST + 1), np.int64), np.zeros((2, DEEPEST + 1), bool)
    size = leave_out(text, out, ends, indexes, marks)
    return Lines(out[:size].data, np.diff(ends, prepend=0))


def write_framed(batch: pa.RecordBatch, frame: Frame, values: Sequence[pa.Array] = ()) -> Lines:
    """Convert a flat batch to one JSON object a line, in a frame with these values (string arrays; null is JSON's null)."""
    lines = _write(batch, frame, values)
    if lines is None:  # a year without four digits
        columns = [_times_as_text(column) for column in batch.columns]
        lines = _write(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), frame, values)
    assert lines is not None
    return lines


def _write(batch: pa.RecordBatch, frame: Frame, values: Sequence[pa.Array]) -> Lines | None:
    plan = _line_plan(batch.schema, frame)
    columns = batch.columns
    prepared = [convert(columns[index]) if convert else columns[index] for index, convert in plan.columns]
    if plan.as_json:
        for at, text in zip(plan.as_json, as_texts([prepared[at] for at in plan.as_json]), strict=True):
            prepared[at] = text
    return plan.writer.write([*values, *prepared], batch.num_rows)


def _times_as_text(column: pa.Array) -> pa.Array:
    """Convert times and dates outside of the years 0000 to 9999 to text, which only Arrow can write."""
    if pa.types.is_timestamp(column.type):
        return iso_times(column)
    return column.cast(pa.string()) if pa.types.is_date32(column.type) else column


# ── Values shared by all batches of a schema ───────────────────────────────────────────────────────


class LinePlan(NamedTuple):
    """How batches of a schema are written."""

    columns: Sequence[tuple[int, Conversion | None]]
    """Index and conversion of each column in the order of the line."""

    as_json: Sequence[int]
    """Which of these columns are converted to JSON text first."""

    writer: JsonWriter


@lru_cache(maxsize=MAX_CACHED_PLANS)
def _line_plan(schema: pa.Schema, frame: Frame) -> LinePlan:
    from etl.columns.json.lines import JsonWriter

    indexes = {name: index for index, name in enumerate(schema.names) if name not in HIDDEN}
    members = nested_schema(pa.schema([pa.field(name, pa.null()) for name in indexes]))
    parts = list(_parts(members, ""))
    forms = {name: _column_form(schema.field(index).type) for name, index in indexes.items()}
    names = [name for _, name in parts if name]
    columns = [(indexes[name], forms[name].convert) for name in names]
    as_json = [at for at, name in enumerate(names) if forms[name].is_json]
    prepared = [ColumnForm(pa.string())] * (len(frame.front) - 1) + [forms[name] for name in names]
    writer = JsonWriter(_literals(parts, forms, frame), [form.type for form in prepared], [form.is_json for form in prepared])
    return LinePlan(columns, as_json, writer)


class ColumnForm(NamedTuple):
    """What the kernel gets for a column."""

    type: pa.DataType
    convert: Conversion | None = None
    is_json: bool = False


def _column_form(type_: pa.DataType) -> ColumnForm:
    from etl.columns.json.table import kind_of

    if kind_of(type_) is not None:
        return ColumnForm(type_)
    if pa.types.is_integer(type_):
        return ColumnForm(pa.int64(), lambda values: values.cast(pa.int64()))
    if pa.types.is_null(type_):
        return ColumnForm(pa.string(), lambda values: values.cast(pa.string()))
    return ColumnForm(pa.string(), is_json=True)


def _parts(members: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield an object's literal texts, each with the name of the value after it, or an empty name."""
    for number, member in enumerate(members):
        key = ("," if number else "{") + json.dumps(member.name, ensure_ascii=False) + ":"
        if pa.types.is_struct(member.type):
            yield key, ""
            yield from _parts(member.type, f"{prefix}{member.name}.")
        else:
            yield key, prefix + member.name
    yield "}" if len(members) else "{}", ""


def _literals(parts: Sequence[tuple[str, str]], forms: Mapping[str, ColumnForm], frame: Frame) -> Sequence[bytes]:
    """Return the texts before the values, each with the quotes that belong to it, and the text after the last."""
    from etl.columns.json.table import is_quoted

    literals = [f'{text}"' for text in frame.front]
    literals = [literals[0], *(f'"{text}' for text in literals[1:])]
    literals[-1] = literals[-1].removesuffix('"')
    for text, name in parts:
        quote = '"' if name and not forms[name].is_json and is_quoted(forms[name].type) else ""
        literals[-1] += text + quote
        if name:
            literals.append(quote)
    return [literal.encode() for literal in (*literals[:-1], f"{literals[-1]}{frame.back}\n")]
