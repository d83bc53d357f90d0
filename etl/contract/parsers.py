"""The base class of parsers: steps that parse one text field into others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.columns.texts import filter_batch, materialize_array
from etl.contract.errors import Finding, unknown_field
from etl.contract.steps import ArrowStep, Outcome, Rejects
from etl.events import Schema, with_columns, with_fields, without
from etl.options import FieldName
from etl.types import format_type


class Parsed(NamedTuple):
    """The result of parsing a column of texts: new columns, and the rows that failed."""

    columns: Mapping[str, pa.Array]
    """Field → array, as long as the input, null where the text failed."""

    failed: pa.BooleanArray | None = None
    """True where the text could not be parsed, without nulls; None when all could."""

    reasons: str | pa.StringArray = "does not match"
    """The reason: one for all, or one for each row (used only for failed rows)."""


class TextSpan(NamedTuple):
    """Where a text holds a field's value: characters from ``start`` to before ``end``."""

    field: str
    start: int
    end: int


class Parser(ArrowStep):
    """Parses one text field into others. A subclass defines the fields (`parsed_fields`) and the parsing (`compile`)."""

    field: FieldName = Field(default="message", description="The field to parse.")
    on_error: Literal["dead_letter", "drop", "keep"] = Field(
        default="dead_letter",
        description="What happens to an event that does not parse: dead letters, dropped and counted, or passed on unparsed.",
    )
    keep_field: bool = Field(default=False, description="Keep the parsed text beside the fields it gave.")

    def parsed_fields(self) -> Schema:
        """The fields that it makes."""
        raise NotImplementedError

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """Make the function that parses a column; called once a task. A null text fails."""
        raise NotImplementedError

    def compile_at(self, now: int) -> Callable[[pa.StringArray], Parsed]:
        """As `compile`, with ``now`` (microseconds since the epoch) for parsers that complete dates from the current time."""
        return self.compile()

    def locate(self, texts: Sequence[str]) -> Sequence[Sequence[TextSpan]]:
        """Where each text holds the fields, in the order of the text, to be shown; nothing where the parser does not know it."""
        return [() for _ in texts]

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """An input field that is missing or is not text."""
        if self.field not in incoming.names:
            yield unknown_field(self.field, incoming, ("field",))
        elif incoming.field(self.field).type not in (pa.string(), pa.null()):
            yield Finding(
                "wrong-type",
                f"field {self.field!r} is {format_type(incoming.field(self.field).type)}, and {self.type} reads text",
                ("field",),
            )

    def keeps_values(self, name: str) -> bool:
        """Those of fields that it does not make."""
        return name not in self.parsed_fields().names

    def fields(self, incoming: Schema) -> Schema:
        """Incoming fields, without the input unless it is kept, and the parsed ones."""
        parsed = {field.name: field.type for field in self.parsed_fields()}
        stays = self.keep_field or self.on_error == "keep" or self.field in parsed
        return with_fields(incoming if stays else without(incoming, [self.field]), parsed)

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Parse the column, put the new columns in, and treat failed rows as ``on_error`` says."""
        parse = self.compile()

        def run(batch: pa.RecordBatch) -> Outcome:
            text = batch.column(self.field)
            parsed = parse(text)
            failed = parsed.failed if parsed.failed is not None and parsed.failed.true_count else None
            rejects: tuple[Rejects, ...] = ()
            if self.on_error == "keep":
                return Outcome(with_columns(batch, self._keep_rows(text, parsed, failed)))
            if failed is None:
                return Outcome(self._merge(batch, parsed.columns))
            if self.on_error == "dead_letter":
                reasons = parsed.reasons if isinstance(parsed.reasons, str) else parsed.reasons.filter(failed)
                rejects = (Rejects(filter_batch(batch, failed), f"{self.type}-failed", reasons),)
            good = pc.invert(failed)
            return Outcome(filter_batch(self._merge(batch, parsed.columns), good), rejects)

        return run

    def _merge(self, batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        if not self.keep_field and self.field not in columns:
            batch = batch.drop_columns([self.field])
        return with_columns(batch, columns)

    def _keep_rows(self, text: pa.Array, parsed: Parsed, failed: pa.BooleanArray | None) -> Mapping[str, pa.Array]:
        """Keep all rows: a failed one keeps its text, a parsed one only if ``keep_field`` is set."""
        columns = dict(parsed.columns)
        given = columns.get(self.field)
        if given is None:
            given = text if self.keep_field else pa.nulls(len(text), text.type)
        columns[self.field] = given if failed is None else pc.if_else(failed, materialize_array(text), materialize_array(given))
        return columns
