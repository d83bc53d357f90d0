"""Record batches as JSON lines.

What JSON has no form for: a timestamp is text in ISO 8601 with six digits of a second
(``2026-01-02T03:04:05.000120Z``; without ``Z`` when it knows no zone), a date ``2026-01-02``, a decimal its digits
as text, bytes are Base64, NaN and infinities are null. Null members are kept, so that every line has the same members, or
with ``nulls="omit"`` left out, and with them objects that have no others.

The scanner's kernel (`etl.columns.json_lines`) writes the lines, straight from the captures where texts are views.
What it does not read (floats, nested values, bytes) is made JSON text before, a column at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from connectors.json_values import as_texts, iso_times
from etl.api import HIDDEN, nested_schema

if TYPE_CHECKING:
    from etl.columns.json_lines import JsonWriter, Lines

SHAPES = 64
"""Schemas whose writers are remembered."""

Conversion = Callable[[pa.Array], pa.Array]

Nulls = Literal["keep", "omit"]


class Frame(NamedTuple):
    """What stands around each event's object: texts in turn with values that are JSON strings, and a text behind it."""

    front: tuple[str, ...] = ("",)
    """One more than there are values."""

    back: str = ""


PLAIN = Frame()
"""The object alone."""


def encode(batch: pa.RecordBatch, nulls: Nulls = "keep") -> memoryview:
    """Flat batch → one JSON object a line, hidden columns left out."""
    return lines(batch, nulls).text


def sizes(batch: pa.RecordBatch, nulls: Nulls = "keep") -> pa.Array:
    """Bytes of each event's line, its newline included (int64). Costs as much as `encode`."""
    return pa.array(lines(batch, nulls).lengths)


def lines(batch: pa.RecordBatch, nulls: Nulls) -> Lines:
    """The lines with their lengths."""
    written = framed(batch, PLAIN)
    return written if nulls == "keep" else _without_nulls(written)


def _without_nulls(written: Lines) -> Lines:
    import numpy as np

    from etl.columns.json_lines import Lines
    from etl.columns.json_nulls import DEEPEST, leave_out

    text = np.frombuffer(written.text, np.uint8)
    out, ends = np.empty(len(text), np.uint8), np.empty(len(written.lengths), np.int64)
    places, marks = np.zeros((2, DEEPEST + 1), np.int64), np.zeros((2, DEEPEST + 1), bool)
    size = leave_out(text, out, ends, places, marks)
    return Lines(out[:size].data, np.diff(ends, prepend=0))


def framed(batch: pa.RecordBatch, frame: Frame, values: Sequence[pa.Array] = ()) -> Lines:
    """Flat batch → one JSON object a line, in a frame with these texts (string arrays; null is JSON's)."""
    lines = _written(batch, frame, values)
    if lines is None:  # a year that is not four digits
        columns = [_far_times(column) for column in batch.columns]
        lines = _written(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), frame, values)
    assert lines is not None
    return lines


def _written(batch: pa.RecordBatch, frame: Frame, values: Sequence[pa.Array]) -> Lines | None:
    shape = _shape(batch.schema, frame)
    columns = batch.columns
    given = [convert(columns[place]) if convert else columns[place] for place, convert in shape.columns]
    if shape.hard:
        for at, text in zip(shape.hard, as_texts([given[at] for at in shape.hard]), strict=True):
            given[at] = text
    return shape.writer.write([*values, *given], batch.num_rows)


def _far_times(column: pa.Array) -> pa.Array:
    """Times and days as texts, where only Arrow knows how to write them."""
    if pa.types.is_timestamp(column.type):
        return iso_times(column)
    return column.cast(pa.string()) if pa.types.is_date32(column.type) else column


# ── What is the same for all batches of a schema ──────────────────────────────────────────────────


class Shape(NamedTuple):
    """How batches of a schema are written."""

    columns: Sequence[tuple[int, Conversion | None]]
    """Place and conversion of each column in the order of the line."""

    hard: Sequence[int]
    """Which of these columns are made JSON text before."""

    writer: JsonWriter


@lru_cache(maxsize=SHAPES)
def _shape(schema: pa.Schema, frame: Frame) -> Shape:
    from etl.columns.json_lines import JsonWriter

    places = {name: place for place, name in enumerate(schema.names) if name not in HIDDEN}
    members = nested_schema(pa.schema([pa.field(name, pa.null()) for name in places]))
    parts = list(_parts(members, ""))
    forms = {name: _form(schema.field(place).type) for name, place in places.items()}
    names = [name for _, name in parts if name]
    columns = [(places[name], forms[name].convert) for name in names]
    hard = [at for at, name in enumerate(names) if forms[name].is_json]
    given = [Form(pa.string())] * (len(frame.front) - 1) + [forms[name] for name in names]
    writer = JsonWriter(_literals(parts, forms, frame), [form.type for form in given], [form.is_json for form in given])
    return Shape(columns, hard, writer)


class Form(NamedTuple):
    """What the kernel gets for a column."""

    type: pa.DataType
    convert: Conversion | None = None
    is_json: bool = False


def _form(type_: pa.DataType) -> Form:
    from etl.columns.json_table import kind_of

    if kind_of(type_) is not None:
        return Form(type_)
    if pa.types.is_integer(type_):
        return Form(pa.int64(), lambda values: values.cast(pa.int64()))
    if pa.types.is_null(type_):
        return Form(pa.string(), lambda values: values.cast(pa.string()))
    return Form(pa.string(), is_json=True)


def _parts(members: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """An object's literal texts, each with the name of the value behind it, if one is there."""
    for number, member in enumerate(members):
        key = ("," if number else "{") + json.dumps(member.name, ensure_ascii=False) + ":"
        if pa.types.is_struct(member.type):
            yield key, ""
            yield from _parts(member.type, f"{prefix}{member.name}.")
        else:
            yield key, prefix + member.name
    yield "}" if len(members) else "{}", ""


def _literals(parts: Sequence[tuple[str, str]], forms: Mapping[str, Form], frame: Frame) -> Sequence[bytes]:
    """The texts in front of the values, each with the quotes that belong to it, and the text behind the last."""
    from etl.columns.json_table import is_quoted

    literals = [f'{text}"' for text in frame.front]
    literals = [literals[0], *(f'"{text}' for text in literals[1:])]
    literals[-1] = literals[-1].removesuffix('"')
    for text, name in parts:
        quote = '"' if name and not forms[name].is_json and is_quoted(forms[name].type) else ""
        literals[-1] += text + quote
        if name:
            literals.append(quote)
    return [literal.encode() for literal in (*literals[:-1], f"{literals[-1]}{frame.back}\n")]
