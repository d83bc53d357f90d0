"""Names of indices, with ``{field}`` and ``{yyyy.MM.dd}`` in them: which one an event belongs to.

A name begins with literal text, which no event can lead out of. Of a value, capitals become small letters and what a name
may not hold is percent-encoded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from connectors.file.date_spelling import date_findings, meant_date
from connectors.file.templates import NULL, Template, coded, date_names, is_date, parse_template
from etl.api import FieldName, Finding, Schema, nearest

LONGEST_NAME = 255
"""Bytes of an index name."""

LONGEST_VALUE = 64
"""Characters of one encoded value; a longer one is cut and told apart by a hash."""

TIME_FIELD = "timestamp"
"""Where dates are taken from if nothing else is said."""

_BAD_LITERAL = re.compile(r'[A-Z\\/*?"<>| ,#:\x00-\x1f\x7f{}]')
_BAD_START = re.compile(r"[-_+]|\.{1,2}$")


def safe_value(value: str | None) -> str:
    """Any text → a part of an index name; different texts give different parts, but for capitals."""
    if not value:
        return NULL
    name = quote(value.lower(), safe="@+=").lower()
    if len(name) > LONGEST_VALUE:
        name = f"{name[: LONGEST_VALUE - 17]}-{hashlib.sha256(value.encode()).hexdigest()[:16]}"
    return name


def index_names(template: Template, batch: pa.RecordBatch, time_field: str) -> pa.Array:
    """Each event's index. Python sees each distinct value of a batch once."""
    pieces: list[pa.Array | str] = [template.pieces[0]]
    for piece, literal in zip(template.pieces[1::2], template.pieces[2::2], strict=True):
        texts, codes = date_names(batch, piece, time_field) if is_date(piece) else _values(batch.column(piece))
        pieces += [pa.array(texts, pa.string()).take(pa.array(codes)), literal]
    return pc.binary_join_element_wise(*pieces, "")


class IndexLimit:
    """Counts the different indices that the events of one split go to, in the order of the events: a repetition of the split
    finds the same ones beyond the limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: set[str] = set()

    def beyond(self, names: pa.Array) -> pa.Array | None:
        """Which events go to indices beyond the limit; None where there is none."""
        new = [name for name in pc.unique(names).to_pylist() if name not in self._known]
        room = self.most - len(self._known)
        self._known.update(new[:room])
        return pc.is_in(names, value_set=pa.array(new[room:], names.type)) if new[room:] else None


def unbounded(index: str, incoming: Schema) -> Iterator[Finding]:
    """Fields that may have any number of values, each of which is an index."""
    for name in dict.fromkeys(parse_template(index).fields):
        if name in incoming.names and not pa.types.is_boolean(incoming.field(name).type):
            message = f"each value of {name!r} makes an index, and nothing says how many there may be"
            hint = "add `max_indices: 100` or as many as you expect; events of further indices are then dead letters"
            yield Finding("unbounded-indices", message, ("index",), hint, "warning", at=index.index("{" + name + "}") + 1)


def check(index: str, time_field: FieldName | None, incoming: Schema) -> Iterator[Finding]:
    """What makes the name of an index impossible, or unsafe."""
    template = parse_template(index)
    yield from _literals(index, template)
    yield from date_findings(template, "index")
    for name in template.fields:
        at = index.index("{" + name + "}") + 1
        if name not in incoming.names:
            meant = meant_date(name)
            near = f"a date is written {{{meant}}}" if meant else nearest(name, incoming.names)
            hint = near or "dates are spelled with yyyy, MM, dd, HH and mm, such as {yyyy.MM.dd}"
            yield Finding("unknown-field", f"there is no field {name!r} here", ("index",), hint, at=at)
        elif pa.types.is_nested(incoming.field(name).type):
            yield Finding("wrong-type", f"field {name!r} is {incoming.field(name).type}, which makes no name", ("index",), at=at)
    if template.dates:
        yield from _time(time_field, incoming)
    elif time_field is not None:
        yield Finding("unused-option", "the index has no date such as {yyyy.MM.dd}", ("time_field",), severity="warning")


def _values(column: pa.Array) -> tuple[list[str], object]:
    return coded(column, lambda distinct: [safe_value(text) for text in distinct.cast(pa.string()).to_pylist()])


def _literals(index: str, template: Template) -> Iterator[Finding]:
    literals = template.pieces[::2]
    if any("/" in date for date in template.dates):
        yield Finding("bad-index", "a date in the name of an index has no '/'; write {yyyy.MM.dd}", ("index",))
    if bad := next((found for text in literals if (found := _BAD_LITERAL.search(text))), None):
        message = f'{bad[0]!r} cannot stand in the name of an index: no capitals, no \\ / * ? " < > | , # : and no blank'
        yield Finding("bad-index", message, ("index",))
    if not literals[0]:
        message = f"{index!r} begins with a value; a text in front of it confines which indices events can write to"
        yield Finding("no-literal-prefix", message, ("index",), f"write {'events-' + index!r}")
    elif _BAD_START.match(index):
        yield Finding("bad-index", "the name of an index does not begin with - _ or +, and is not . or ..", ("index",))
    longest = sum(len(text.encode()) for text in literals) + LONGEST_VALUE * len(template.pieces[1::2])
    if longest > LONGEST_NAME:
        yield Finding("bad-index", f"the name may get {longest} bytes long, and has at most {LONGEST_NAME}", ("index",))


def _time(time_field: FieldName | None, incoming: Schema) -> Iterator[Finding]:
    name = time_field or TIME_FIELD
    if name not in incoming.names:
        message = f"the index has a date, and there is no field {name!r} to take it from"
        hint = nearest(name, incoming.names) or "name one with time_field"
        yield Finding("unknown-field", message, ("time_field",) if time_field else ("index",), hint)
        return
    type_ = incoming.field(name).type
    if not (pa.types.is_timestamp(type_) or pa.types.is_date(type_)):
        message = f"field {name!r} is {type_}, and dates are taken from a timestamp"
        yield Finding("wrong-type", message, ("time_field",) if time_field else ("index",))
