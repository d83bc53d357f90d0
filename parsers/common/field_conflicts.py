"""Fields of a parser that cannot be at once."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from etl.api import Finding, Parser, format_type, nested_schema


def field_conflicts(parser: Parser, option: str) -> Iterable[Finding]:
    """Names that contradict each other (the fault of ``option``), and an input field that would hold values and texts."""
    schema = parser.parsed()
    try:
        nested_schema(schema)
    except ValueError as error:
        yield Finding("field-conflict", str(error), (option,))
    type_ = schema.field(parser.field).type if parser.field in schema.names else pa.string()
    if parser.on_error == "keep" and type_ != pa.string():
        message = f"field {parser.field!r} cannot hold {format_type(type_)} in one event and its unparsed text in another"
        yield Finding("keep-conflict", message, ("on_error",))
