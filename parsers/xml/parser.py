"""The parser `xml`: elements and attributes as fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import FieldName, Finding, Parsed, Parser, Schema, Size, TypeName, format_type, parse_type
from parsers.common.failures import wrong_values
from parsers.common.field_checks import check_type, field_conflicts, path_findings
from parsers.common.text_types import item_reader, make_reader
from parsers.xml.documents import DocumentError, Used, read_document, rest_json
from parsers.xml.element_paths import Path, parse_path

MAX_DEPTH = 500
"""Elements inside each other: the highest bound that ``max_depth`` takes."""


class Xml(Parser):
    """Read an XML document and take elements and attributes as fields.

    A field's name is its path from the root element, the dots for slashes: ``System.EventID`` is the text of ``EventID``
    in ``System``. ``paths`` says where other fields are: ``System/Provider/@Name``,
    ``EventData/Data[@Name='IpAddress']``, ``//Data[2]``, ``/Event/System`` (which names the root), ``*``. The text of an
    element includes that of the elements in it, without white space around; what is missing or empty is null. Where a
    path leads to several elements, the first counts, or all for an array. Prefixes of namespaces are ignored, or part of
    the names with ``namespaces: keep``.

    ``rest`` gets what no field took as JSON, ``{"Event": {"@attribute": …, "child": …, "#text": …}}``, with an
    array for a child that is repeated; null when nothing is left.

    An event fails when its text is not one well-formed document, is longer or nested deeper than allowed, when a value
    does not fit its type, and when it has a document type: without one there are no entities to expand or to fetch.
    Documents are read one by one, by expat: about 10,000 Windows events of 35 elements/s a core.

    ```yaml
    type: xml
    fields: {event.code: int, source.ip: string, System.Computer: string}
    paths:
      event.code: System/EventID
      source.ip: EventData/Data[@Name='IpAddress']
    rest: winlog
    ```
    """

    type: Literal["xml"] = "xml"
    declared: dict[FieldName, TypeName] = Field(
        default={},
        alias="fields",
        description="The fields to read and their Spark SQL types.",
        examples=[{"System.EventID": "int", "tags.tag": "array<string>"}],
    )
    paths: dict[FieldName, str] = Field(
        default={},
        description="Where a field is, if its name does not say so.",
        examples=[{"source.ip": "EventData/Data[@Name='IpAddress']"}],
    )
    namespaces: Literal["ignore", "keep"] = Field(
        default="ignore", description="Whether prefixes of names are ignored or a part of them."
    )
    rest: FieldName | None = Field(default="xml", description="Text field for the JSON of what no field took; none drops it.")
    max_bytes: Size = Field(default=1 << 20, ge=1, description="Maximum size of a document.", examples=["64KiB"])
    max_depth: int = Field(default=100, ge=1, le=MAX_DEPTH, description="Maximum depth of nested elements.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The findings of every parser; bad paths, types that no text fills, names that contradict each other."""
        yield from super().check(incoming)
        yield from path_findings(self.declared, self.paths, parse_path)
        for name, text in self.declared.items():
            yield from check_type(name, text, item_reader)
        if self.rest in self.declared:
            yield Finding("field-conflict", f"{self.rest!r} is a declared field already", ("rest",))
            return
        yield from field_conflicts(self, "fields")

    def parsed_fields(self) -> Schema:
        """The declared fields and the rest."""
        fields = [(name, parse_type(text)) for name, text in self.declared.items()]
        return pa.schema([*fields, *([(self.rest, pa.string())] if self.rest is not None else [])])

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """A loop over documents, then each field's texts as values."""
        types = {name: parse_type(text) for name, text in self.declared.items()}
        paths = [
            (parse_path(self.paths.get(name, name.replace(".", "/"))), not pa.types.is_list(type_))
            for name, type_ in types.items()
        ]

        def run(texts: pa.Array) -> Parsed:
            rows = [self._row(text, paths) for text in texts.to_pylist()]
            reasons = pa.array([row if isinstance(row, str) else None for row in rows], pa.string())
            return self._columns(rows, types, reasons)

        return run

    def _row(self, text: str | None, paths: list[tuple[Path, bool]]) -> list[Any] | str:
        """The texts of each field and the rest, or the reason why there are none."""
        if text is None:
            return "is null"
        if len(text) > self.max_bytes or (not text.isascii() and len(text.encode()) > self.max_bytes):
            return f"is longer than {self.max_bytes} bytes"
        try:
            root = read_document(text, self.namespaces == "keep", self.max_depth)
        except DocumentError as error:
            return str(error)
        used = Used()
        values: list[Any] = [path.values(root, used, first) for path, first in paths]
        return values if self.rest is None else [*values, rest_json(root, used)]

    def _columns(self, rows: list[list[Any] | str], types: dict[str, pa.DataType], reasons: pa.StringArray) -> Parsed:
        columns = {}
        for index, (name, type_) in enumerate(types.items()):
            found = [[] if isinstance(row, str) else row[index] for row in rows]
            columns[name], wrong = _column(found, name, type_)
            reasons = reasons if wrong is None else pc.coalesce(reasons, wrong)
        if self.rest is not None:
            columns[self.rest] = pa.array([None if isinstance(row, str) else row[-1] for row in rows], pa.string())
        if reasons.null_count == len(reasons):
            return Parsed(columns)
        failed = reasons.is_valid()
        return Parsed({name: pc.if_else(failed, None, column) for name, column in columns.items()}, failed, reasons)


def _column(found: list[list[str | None]], name: str, type_: pa.DataType) -> tuple[pa.Array, pa.StringArray | None]:
    """Values of a field, and reasons where a text is none."""
    if not pa.types.is_list(type_):
        texts = pa.array([texts[0] if texts else None for texts in found], pa.string())
        values, wrong = make_reader(type_)(texts)
        return values, None if wrong is None else wrong_values(name, texts, wrong, format_type(type_))
    texts = pa.array(_flat(found), pa.string())
    values, wrong = make_reader(type_.value_type)(texts)
    ends = [0]
    for one in found:
        ends.append(ends[-1] + len(one))
    mask = pa.array([not one for one in found], pa.bool_())
    column = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values, type=type_, mask=mask)
    if wrong is None:
        return column, None
    each = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), wrong_values(name, texts, wrong, format_type(type_.value_type)))
    first = [next((one for one in reasons if one is not None), None) for reasons in each.to_pylist()]
    return column, pa.array(first, pa.string())


def _flat(found: list[list[str | None]]) -> Iterator[str | None]:
    for texts in found:
        yield from texts
