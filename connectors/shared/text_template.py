"""Texts with ``{field}``: a constant, the text of a field, or both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared.field_texts import to_texts
from etl.api import Finding, Schema, format_type, unknown_field

if TYPE_CHECKING:
    from collections.abc import Iterable

OptionPath = tuple[str | int, ...]

_BRACES = re.compile(r"\{([^{}]*)\}")


class TextTemplate(NamedTuple):
    """A text split at its braces: pieces at even indexes are constant, those at odd ones are fields."""

    pieces: tuple[str, ...]

    @classmethod
    def parse(cls, template: str) -> TextTemplate:
        """Split a text at its braces."""
        return cls(tuple(_BRACES.split(template)))

    @property
    def is_constant(self) -> bool:
        """Whether all events have the same text."""
        return len(self.pieces) == 1

    def texts(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the text of each event (large_string); null where a field is null or the text is empty."""
        parts = [
            large_texts(batch.column(piece)) if at % 2 else pa.scalar(piece, pa.large_string())
            for at, piece in enumerate(self.pieces)
        ]
        if self.is_constant:
            return pa.repeat(pa.scalar(self.pieces[0] or None, pa.large_string()), batch.num_rows)
        joined = pc.binary_join_element_wise(*parts, pa.scalar("", pa.large_string()))
        return pc.if_else(pc.equal(joined, ""), None, joined)


def large_texts(values: pa.Array) -> pa.Array:
    """Return values as texts (large_string), null to null."""
    return to_texts(values).cast(pa.large_string())


def check_templates(templates: Mapping[OptionPath, str | None], incoming: Schema) -> Iterator[Finding]:
    """Yield findings for fields of templates that do not exist, by the path of their options."""
    for path, template in templates.items():
        for name in TextTemplate.parse(template or "").pieces[1::2]:
            if name not in incoming.names:
                yield unknown_field(name, incoming, path, (template or "").index("{" + name + "}") + 1)


def check_fields(fields: Iterable[tuple[OptionPath, str | None]], incoming: Schema) -> Iterator[Finding]:
    """Yield findings for fields that do not exist; None is not a field."""
    for path, name in fields:
        if name is not None and name not in incoming.names:
            yield unknown_field(name, incoming, path)


def check_time_field(name: str | None, incoming: Schema, option: str = "time_field") -> Iterator[Finding]:
    """Yield findings for a time field that does not exist, or is not a timestamp."""
    yield from check_fields([((option,), name)], incoming)
    if name in incoming.names and not _is_time(incoming.field(name).type):
        type_ = format_type(incoming.field(name).type)
        yield Finding("wrong-type", f"field {name!r} is {type_}, a timestamp is needed", (option,))


def event_times(batch: pa.RecordBatch, time_field: str | None) -> pa.Array:
    """Return nanoseconds since 1970 of the field, or of ``timestamp`` if none is named (int64); null where there is none."""
    name = time_field or "timestamp"
    if name not in batch.schema.names or not pa.types.is_timestamp(batch.schema.field(name).type):
        return pa.nulls(batch.num_rows, pa.int64())
    times = batch.column(name)
    factor = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}[times.type.unit]
    count = times.cast(pa.int64())
    limit = (1 << 63) // factor - 1
    in_range = pc.and_(pc.less(count, limit), pc.greater(count, -limit))
    return pc.multiply(pc.if_else(in_range, count, None), factor)


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_null(type_))
