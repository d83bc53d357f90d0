"""Index names with ``{field}`` and ``{yyyy.MM.dd}``: the index of each event.

A name begins with literal text, so events cannot write to other indices. In values, capitals become small letters, and
characters that a name may not contain are percent-encoded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared.date_patterns import check_dates, suggest_date
from connectors.shared.path_template import NULL, Template, date_names, encode_distinct, is_date_pattern, parse_template
from etl.api import FieldName, Finding, Schema, format_type, nearest, unknown_field

MAX_NAME_BYTES = 255
"""Longest index name, in bytes."""

MAX_VALUE_CHARS = 64
"""Longest encoded value, in characters; a longer one is truncated and gets a hash."""

TIME_FIELD = "timestamp"
"""Default field of dates."""

_BAD_LITERAL = re.compile(r'[A-Z\\/*?"<>| ,#:\x00-\x1f\x7f{}]')
_BAD_START = re.compile(r"[-_+]|\.{1,2}$")


def safe_value(value: str | None) -> str:
    """Encode any text as a part of an index name; texts that differ in more than capitals give different parts."""
    if not value:
        return NULL
    name = quote(value.lower(), safe="@+=").lower()
    if len(name) > MAX_VALUE_CHARS:
        name = f"{name[: MAX_VALUE_CHARS - 17]}-{hashlib.sha256(value.encode()).hexdigest()[:16]}"
    return name


def index_names(template: Template, batch: pa.RecordBatch, time_field: str) -> pa.Array:
    """Return each event's index. Python handles each distinct value of a batch once."""
    pieces: list[pa.Array | str] = [template.pieces[0]]
    for piece, literal in zip(template.pieces[1::2], template.pieces[2::2], strict=True):
        texts, codes = date_names(batch, piece, time_field) if is_date_pattern(piece) else _values(batch.column(piece))
        pieces += [pa.array(texts, pa.string()).take(pa.array(codes)), literal]
    return pc.binary_join_element_wise(*pieces, "")


def check_bounded(index: str, incoming: Schema) -> Iterator[Finding]:
    """Yield a warning for each field that may have any number of values, because each value creates an index."""
    for name in dict.fromkeys(parse_template(index).fields):
        if name in incoming.names and not pa.types.is_boolean(incoming.field(name).type):
            message = f"each value of {name!r} creates an index, and their number is not limited"
            hint = "add `max_indices: 100` or as many as you expect; events of more indices become dead letters"
            yield Finding("unbounded-indices", message, ("index",), hint, "warning", at=index.index("{" + name + "}") + 1)


def check_index_name(index: str, time_field: FieldName | None, incoming: Schema) -> Iterator[Finding]:
    """Yield findings for a name that is impossible or unsafe."""
    template = parse_template(index)
    yield from _check_literals(index, template)
    yield from check_dates(template, "index")
    for name in template.fields:
        at = index.index("{" + name + "}") + 1
        if name not in incoming.names:
            meant = suggest_date(name)
            near = f"a date is written {{{meant}}}" if meant else nearest(name, incoming.names)
            hint = near or "dates are spelled with yyyy, MM, dd, HH and mm, such as {yyyy.MM.dd}"
            yield unknown_field(name, incoming, ("index",), at, hint)
        elif pa.types.is_nested(incoming.field(name).type):
            yield Finding(
                "wrong-type", f"field {name!r} is {incoming.field(name).type}, which cannot be part of a name", ("index",), at=at
            )
    if template.dates:
        yield from _check_time(time_field, incoming)
    elif time_field is not None:
        yield Finding("unused-option", "the index has no date such as {yyyy.MM.dd}", ("time_field",), severity="warning")


def _values(column: pa.Array) -> tuple[list[str], object]:
    return encode_distinct(column, lambda distinct: [safe_value(text) for text in distinct.cast(pa.string()).to_pylist()])


def _check_literals(index: str, template: Template) -> Iterator[Finding]:
    literals = template.pieces[::2]
    if any("/" in date for date in template.dates):
        yield Finding("bad-index", "a date in an index name cannot contain '/'; write {yyyy.MM.dd}", ("index",))
    if bad := next((found for text in literals if (found := _BAD_LITERAL.search(text))), None):
        message = f'{bad[0]!r} cannot be in an index name: no capitals, no \\ / * ? " < > | , # : and no blank'
        yield Finding("bad-index", message, ("index",))
    if not literals[0]:
        message = f"{index!r} begins with a value; a literal prefix would limit the indices that events can write to"
        yield Finding("no-literal-prefix", message, ("index",), f"write {'events-' + index!r}")
    elif _BAD_START.match(index):
        yield Finding("bad-index", "an index name cannot begin with - _ or +, or be . or ..", ("index",))
    longest = sum(len(text.encode()) for text in literals) + MAX_VALUE_CHARS * len(template.pieces[1::2])
    if longest > MAX_NAME_BYTES:
        yield Finding("bad-index", f"the name may become {longest} bytes long; at most {MAX_NAME_BYTES} are allowed", ("index",))


def _check_time(time_field: FieldName | None, incoming: Schema) -> Iterator[Finding]:
    name = time_field or TIME_FIELD
    if name not in incoming.names:
        message = f"the index has a date, but there is no field {name!r} to take it from"
        hint = nearest(name, incoming.names) or "choose one with time_field"
        yield Finding("unknown-field", message, ("time_field",) if time_field else ("index",), hint)
        return
    type_ = incoming.field(name).type
    if not (pa.types.is_timestamp(type_) or pa.types.is_date(type_) or pa.types.is_null(type_)):
        message = f"field {name!r} is {format_type(type_)}, but a date needs a timestamp"
        yield Finding("wrong-type", message, ("time_field",) if time_field else ("index",))
