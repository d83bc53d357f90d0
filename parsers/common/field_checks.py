"""Findings about a parser's fields: names that contradict each other, types that no text fills, bad paths."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

import pyarrow as pa

from etl.api import Finding, Parser, format_type, nested_schema, parse_type
from parsers.common.path_error import PathError


def field_conflicts(parser: Parser, option: str) -> Iterable[Finding]:
    """Names that contradict each other (reported for ``option``), and an input field that would hold values and texts."""
    schema = parser.parsed_fields()
    try:
        nested_schema(schema)
    except ValueError as error:
        yield Finding("field-conflict", str(error), (option,))
    type_ = schema.field(parser.field).type if parser.field in schema.names else pa.string()
    if parser.on_error == "keep" and type_ != pa.string():
        message = f"field {parser.field!r} cannot hold {format_type(type_)} in one event and its unparsed text in another"
        yield Finding("keep-conflict", message, ("on_error",))


def undeclared_fields(declared: Container[str], paths: Iterable[str]) -> Iterator[Finding]:
    """Fields that the option ``paths`` names and ``fields`` does not."""
    for name in paths:
        if name not in declared:
            yield Finding("unknown-field", f"{name!r} is not among the fields", ("paths", name), "declare it under fields")


def path_findings(declared: Container[str], paths: Mapping[str, str], parse: Callable[[str], object]) -> Iterator[Finding]:
    """Paths of fields that are not declared, and paths that ``parse`` refuses with PathError."""
    for name, path in paths.items():
        yield from undeclared_fields(declared, [name])
        try:
            parse(path)
        except PathError as error:
            yield Finding("bad-path", f"{path!r}: {error}", ("paths", name), at=error.at)


def check_type(
    name: str, type_text: str, read: Callable[[pa.DataType], object], path: tuple[str | int, ...] | None = None
) -> Iterator[Finding]:
    """A finding when no text fills a field's type: ``read`` then raises ValueError. The path is that of the option ``fields``."""
    try:
        read(parse_type(type_text))
    except ValueError as error:
        yield Finding("unreadable-type", f"field {name!r} is {type_text}: {error}", path or ("fields", name))
