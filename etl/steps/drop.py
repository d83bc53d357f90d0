"""Drop some fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import HIDDEN, ArrowStep, Finding, Outcome, Schema, SparkStep, with_key_renamed, without
from etl.expressions import quote_name
from etl.steps.field_selection import Selection, Selector, unknown_selectors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Drop(ArrowStep, SparkStep):
    """Drop the named fields and keep the others.

    A prefix drops all fields under it: ``source`` (or ``source.*``) drops ``source.ip`` and ``source.port``. No event
    is lost, and nothing is copied.

    ```yaml
    type: drop
    fields: [message, source.port]
    ```
    """

    type: Literal["drop"] = "drop"
    names: tuple[Selector, ...] = Field(alias="fields", min_length=1, description="Fields to drop, or prefixes of them.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        yield from unknown_selectors(self.names, incoming)
        if not [name for name in self.fields(incoming).names if name not in HIDDEN]:
            yield Finding("no-fields", "this drops every field, and an event without fields cannot go on", ("fields",))

    def takes_changes(self) -> bool:
        return True

    def keeps_values(self, name: str) -> bool:
        return True

    def fields(self, incoming: Schema) -> Schema:
        remaining_fields = without(incoming, self._find_dropped(incoming.names))
        return with_key_renamed(remaining_fields, incoming, {name: name for name in remaining_fields.names})

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        def run(batch: pa.RecordBatch) -> Outcome:
            dropped = self._find_dropped(batch.schema.names)
            return Outcome(batch.drop_columns(dropped) if dropped else batch)

        return run

    def apply(self, events: DataFrame) -> DataFrame:
        dropped = set(self._find_dropped(events.columns))
        return events.select(*(events[quote_name(name)] for name in events.columns if name not in dropped))

    def _find_dropped(self, names: list[str]) -> list[str]:
        selection = Selection(name for name in names if name not in HIDDEN)
        return list(dict.fromkeys(name for selector in self.names for name in selection.of(selector)))
