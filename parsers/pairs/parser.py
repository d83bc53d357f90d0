"""What parsers of pairs share: declared fields, the rest, and the values of repeated keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from etl.api import FieldName, Finding, Parser, Schema, TypeName, parse_type, with_fields
from parsers.common.failures import Failures
from parsers.common.field_checks import check_type, field_conflicts
from parsers.common.text_types import TextReader, item_type, make_reader
from parsers.pairs.pair_columns import PairColumns, Pairs, Repeats


class PairsParser(Parser):
    """Pairs of keys and values. A subclass finds them (`compile`) and names their fields (`key_to_field`)."""

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

    def key_to_field(self) -> Callable[[str], str | None]:
        """Return the function from a key to the name of its field, None for a key that is dropped."""
        return str

    def header_schema(self) -> Schema:
        """The text fields that an event has beside its pairs: those of its header."""
        return pa.schema([])

    def text_reader(self, type_: pa.DataType) -> TextReader:
        """Return the function that converts texts to values of a type. Raises ValueError for a type that it cannot read."""
        return make_reader(type_)

    def parsed_fields(self) -> Schema:
        """Headers, declared fields and the rest."""
        schema = with_fields(self.header_schema(), self._declared_types())
        return schema if self.rest is None else with_fields(schema, {self.rest: pa.string()})

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The findings of every parser; names that contradict each other, types that one text cannot fill."""
        yield from super().check(incoming)
        for name, type_name in self.declared.items():
            yield from check_type(name, type_name, lambda type_: self.text_reader(item_type(type_)))
            if name in self.header_schema().names:
                yield Finding("field-conflict", f"{name!r} is a field of the header already", ("fields", name))
        if self.rest in self.declared or self.rest in self.header_schema().names:
            yield Finding("field-conflict", f"{self.rest!r} is a field already", ("rest",))
            return
        yield from field_conflicts(self, "fields")

    def columns(self) -> Callable[[Pairs, Failures], dict[str, pa.Array]]:
        """Pairs → declared fields and the rest."""
        return PairColumns(self._declared_types(), self.rest, self.repeats, self.key_to_field(), self.text_reader).compile()

    def _declared_types(self) -> dict[str, pa.DataType]:
        return {name: parse_type(text) for name, text in self.declared.items()}
