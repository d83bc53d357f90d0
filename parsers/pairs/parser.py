"""What parsers of pairs share: declared fields, the rest, and what a repeated key means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from etl.api import FieldName, Finding, Parser, Schema, TypeName, parse_type, with_fields
from parsers.common.failures import Failures
from parsers.common.field_conflicts import field_conflicts
from parsers.common.text_types import Read, reader
from parsers.pairs.pairs import PairColumns, Pairs, Repeats, item_type


class PairsParser(Parser):
    """Pairs of keys and values. A subclass says how they are found (`reads`) and what a key is called (`named`)."""

    declared: dict[FieldName, TypeName] = Field(
        alias="fields",
        default={},
        description="The fields to read and their Spark SQL types; a list takes all values of a key that repeats.",
        examples=[{"source.ip": "string", "status": "int"}],
    )
    rest: FieldName | None = Field(
        default="pairs", description="Text field for the JSON of the pairs that are not declared; none drops them."
    )
    repeats: Repeats = Field(
        default="array",
        description="Which value of a repeated key counts: the first, the last, or all or all different ones, as an array in "
        "the rest, while a field of one value takes the last.",
    )

    takes_views: ClassVar[bool] = True

    def named(self) -> Callable[[str], str | None]:
        """How keys become names of fields."""
        return str

    def headers(self) -> Schema:
        """Fields beside the declared ones, all of them text."""
        return pa.schema([])

    def read(self, type_: pa.DataType) -> Read:
        """How texts become values of a type. Raises ValueError."""
        return reader(type_)

    def parsed(self) -> Schema:
        """Headers, declared fields and the rest."""
        schema = with_fields(self.headers(), self._declared())
        return schema if self.rest is None else with_fields(schema, {self.rest: pa.string()})

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Beside the input field: names that contradict each other, types that one text cannot fill."""
        yield from super().check(incoming)
        for name, type_name in self.declared.items():
            if reason := self._unreadable(parse_type(type_name)):
                yield Finding("unreadable-type", f"field {name!r} is {type_name}: {reason}", ("fields", name))
            if name in self.headers().names:
                yield Finding("field-conflict", f"{name!r} is a field of the header already", ("fields", name))
        if self.rest in self.declared or self.rest in self.headers().names:
            yield Finding("field-conflict", f"{self.rest!r} is a field already", ("rest",))
            return
        yield from field_conflicts(self, "fields")

    def fields(self, incoming: Schema) -> Schema:
        """As every parser; in place where the input field is given itself."""
        if self.field in self.parsed().names:
            return with_fields(incoming, {f.name: f.type for f in self.parsed()})
        return super().fields(incoming)

    def columns(self) -> Callable[[Pairs, Failures], dict[str, pa.Array]]:
        """Pairs → declared fields and the rest."""
        return PairColumns(self._declared(), self.rest, self.repeats, self.named(), self.read).compile()

    def _declared(self) -> dict[str, pa.DataType]:
        return {name: parse_type(text) for name, text in self.declared.items()}

    def _unreadable(self, type_: pa.DataType) -> str | None:
        try:
            self.read(item_type(type_))
        except ValueError as error:
            return str(error)
        return None
