"""JSON objects → fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import pyarrow as pa
from pydantic import Field

from etl.api import (
    FieldName,
    Finding,
    Parsed,
    Parser,
    Schema,
    TypeName,
    flat_schema,
    nested_schema,
    parse_type,
    with_fields,
)
from parsers.json_columns import Reader, read_as
from parsers.json_rows import converter


class Json(Parser):
    """Read a JSON object (RFC 8259) and take the declared members as fields.

    A dotted name is a path: ``source.ip`` is the member ``ip`` of the object ``source``, or else a member named
    ``source.ip``. A member that is missing or null gives null. Members that nobody declared are dropped, or kept as
    they were written in the text field ``rest`` (null when nothing is left; it costs a Python loop, about 70,000
    events/s a core). Of a repeated member the last counts.

    An event fails when its text is not exactly one object, or when a declared member does not fit its type. A whole
    number fits ``double``, ``5.0`` fits ``int``; a number, boolean, array or object becomes a ``string`` as its JSON
    text; a quoted number is no number. ``timestamp`` and ``date`` are ISO 8601 texts, UTC where they name no zone.
    ``NaN`` is no JSON. Half a surrogate pair becomes U+FFFD. Only the rows that are wrong fail, and the others stay
    columnar. Where a member is ``map``, ``binary`` or ``decimal``, or ``float`` or a time
    inside an array, all rows are read one at a time, at a tenth of the speed.

    ```yaml
    type: json
    fields:
      timestamp: timestamp
      source.ip: string
      status: int
      tags: array<string>
    rest: labels
    ```
    """

    type: Literal["json"] = "json"
    declared: dict[FieldName, TypeName] = Field(
        alias="fields",
        min_length=1,
        description="The members to read and their Spark SQL types.",
        examples=[{"source.ip": "string", "status": "int"}],
    )
    rest: FieldName | None = Field(default=None, description="Text field for the JSON of the members that are not declared.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Beside the input field: names that contradict each other, types that JSON cannot fill."""
        yield from super().check(incoming)
        for name, type_name in self.declared.items():
            if reason := _unreadable(parse_type(type_name)):
                yield Finding("unreadable-type", f"field {name!r} is {type_name}: {reason}", ("fields", name))
        if self.rest in self.declared:
            yield Finding("field-conflict", f"{self.rest!r} is a declared field already", ("rest",))
            return
        try:
            nested_schema(self.parsed())
        except ValueError as error:
            yield Finding("field-conflict", str(error), ("fields",))
        if self.on_error == "keep" and self.declared.get(self.field, "string") != "string":
            message = (
                f"field {self.field!r} cannot hold {self.declared[self.field]} in one event and its unparsed text in another"
            )
            yield Finding("keep-conflict", message, ("on_error",))

    def parsed(self) -> Schema:
        """The declared members, structs flat, and ``rest``."""
        schema = flat_schema(pa.schema([(name, parse_type(text)) for name, text in self.declared.items()]))
        return schema if self.rest is None else with_fields(schema, {self.rest: pa.string()})

    def fields(self, incoming: Schema) -> Schema:
        """As every parser; in place where the input field is declared itself."""
        if self.field in self.parsed().names:
            return with_fields(incoming, {f.name: f.type for f in self.parsed()})
        return super().fields(incoming)

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """A function of a column of texts."""
        return Reader(tuple((f.name, f.type) for f in self.parsed() if f.name != self.rest), self.rest).parse


def _unreadable(type_: pa.DataType) -> str | None:
    try:
        converter(read_as(type_))
    except ValueError as error:
        return str(error)
    return None
