"""Compares the fields of a subscriber with those of its publisher."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from etl.api import Finding, Schema, format_type, nearest


def compare_fields(declared: Schema, published: Schema, publisher: str) -> Iterable[Finding]:
    """Findings about fields that the publisher does not write, or with a type that is never cast."""
    for field in declared:
        at = published.get_field_index(field.name)
        if at < 0:
            hint = nearest(field.name, published.names) or f"it publishes {', '.join(published.names)}"
            message = f"{publisher} publishes no field {field.name!r}: it is always null"
            yield Finding("unpublished-field", message, ("fields", field.name), hint, "warning")
            continue
        type_ = published.field(at).type
        if not _is_castable(type_, field.type):
            wanted, found = format_type(field.type), format_type(type_)
            message = f"{publisher} publishes {field.name!r} as {found}, which is never cast to {wanted}"
            yield Finding("unpublished-field", message, ("fields", field.name), f"declare it as {found}", "warning")


def unpublished(name: str, folder: Path, hint: str | None) -> Finding:
    """The finding about a stream that does not exist."""
    publish = f"add a sink to a pipeline: {{type: stream, name: {name}}}"
    message = f"no pipeline publishes stream {name!r}, and there is none in {folder}"
    return Finding("unpublished-stream", message, ("name",), hint or publish, "warning")


def _is_castable(published: pa.DataType, declared: pa.DataType) -> bool:
    """Whether some values can be cast; a type that is not known before the run fits."""
    if published == declared or pa.types.is_null(published):
        return True
    import pyarrow.compute as pc

    try:
        pc.cast(pa.nulls(0, published), declared)
    except pa.ArrowNotImplementedError:
        return False
    return True
