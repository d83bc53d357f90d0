"""The parser `json`: members of objects as fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import (
    FieldName,
    Finding,
    Parsed,
    Parser,
    Schema,
    TypeName,
    flat_schema,
    parse_type,
    with_fields,
)
from etl.columns.texts import materialize_array
from parsers.common.field_checks import check_type, field_conflicts, path_findings
from parsers.json.column_reader import ColumnReader, Leaf, read_as
from parsers.json.conversions import find_converter
from parsers.json.member_paths import parse_path
from parsers.json.several_objects import split_objects


class Json(Parser):
    """Read a JSON object (RFC 8259) and take the declared members as fields.

    A dotted name is a path: ``source.ip`` is the member ``ip`` of the object ``source``, or else a member named
    ``source.ip``. ``paths`` has the paths of other fields: ``tags[0]`` (the first of an array), ``events[0].id``,
    ``labels["a.b"]``. A member that is missing or null gives null. Of a repeated member the last counts. Undeclared
    members are dropped, or copied as they were written to the text field ``rest`` (null when there are none; an array of which
    ``paths`` takes an element is copied whole).

    An event fails when its text is not exactly one object, or when a declared member does not fit its type. A whole
    number fits ``double``, ``5.0`` fits ``int``; a number, boolean, array or object becomes a ``string`` as its JSON
    text; a quoted number is not a number. ``timestamp`` and ``date`` are ISO 8601 texts, UTC where they name no zone.
    ``NaN`` is not JSON. Half a surrogate pair becomes U+FFFD. Only the rows that are wrong fail, and the others stay
    columnar. Members that are ``map``, ``binary`` or ``decimal``, and arrays with ``float`` or times in them, are
    converted in Python, each distinct value once.

    Where a text has several objects, one after the other or in an array, the first gives the fields and ``more`` gets
    the texts of the others (null when there are none): the step ``unnest`` makes events of an array's elements, or cut the
    objects into lines at the source.

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

    takes_views: ClassVar[bool] = True

    type: Literal["json"] = "json"
    declared: dict[FieldName, TypeName] = Field(
        alias="fields",
        description="The members to read and their Spark SQL types.",
        examples=[{"source.ip": "string", "status": "int"}],
    )
    paths: dict[FieldName, str] = Field(
        default={},
        description="Paths of fields whose name is not their path.",
        examples=[{"first_tag": "tags[0]", "user_name": "userIdentity.userName"}],
    )
    rest: FieldName | None = Field(default=None, description="Text field for the JSON of the members that are not declared.")
    more: FieldName | None = Field(
        default=None,
        description="Array field for the texts of further objects in the same text; none means that such a text fails.",
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The findings of every parser; names that contradict each other, types that JSON cannot fill."""
        yield from super().check(incoming)
        if not self.declared and self.rest is None:
            text = "no member is declared, and no field takes the others"
            yield Finding("no-fields", text, ("fields",), hint="declare members, or set `rest`")
        for name, type_name in self.declared.items():
            yield from check_type(name, type_name, lambda type_: find_converter(read_as(type_)))
        yield from path_findings(self.declared, self.paths, parse_path)
        for option, field in (("rest", self.rest), ("more", self.more)):
            if field in self.declared or (option == "more" and field is not None and field == self.rest):
                yield Finding("field-conflict", f"{field!r} is a declared field already", (option,))
                return
        yield from field_conflicts(self, "fields")

    def parsed_fields(self) -> Schema:
        """The declared members, structs flat, ``rest`` and ``more``."""
        declared = flat_schema(pa.schema([(name, parse_type(text)) for name, text in self.declared.items()]))
        return with_fields(declared, self._others)

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """A function of a column of texts."""
        read = ColumnReader(tuple(self._leaves()), self.rest).parse
        more = self.more
        if more is None:
            return read

        def parse(texts: pa.Array) -> Parsed:
            first, others = split_objects(materialize_array(texts))
            found = read(first)
            others = others if found.failed is None else pc.if_else(found.failed, None, others)
            return found._replace(columns={**found.columns, more: others})

        return parse

    @property
    def _others(self) -> dict[str, pa.DataType]:
        """The fields beside the declared ones."""
        kinds = ((self.rest, pa.string()), (self.more, pa.list_(pa.string())))
        return {name: type_ for name, type_ in kinds if name is not None}

    def _leaves(self) -> Iterator[Leaf]:
        for name, text in self.declared.items():
            path = parse_path(self.paths[name]) if name in self.paths else tuple(name.split("."))
            for field in flat_schema(pa.schema([(name, parse_type(text))])):
                members = field.name[len(name) + 1 :]
                yield Leaf(field.name, field.type, (*path, *(members.split(".") if members else ())), name not in self.paths)
