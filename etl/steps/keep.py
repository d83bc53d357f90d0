"""Keep some fields and drop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import HIDDEN, ArrowStep, Finding, Outcome, Schema, SparkStep, with_key_renamed
from etl.expressions import quote_name
from etl.steps.field_selection import Selection, Selector, unknown_selectors
from etl.steps.heartbeats import ARRIVAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Keep(ArrowStep, SparkStep):
    """Keep the named fields, in the order they are named, and drop the others.

    A prefix keeps all fields under it: ``source`` (or ``source.*``) keeps ``source.ip`` and ``source.port``. No event
    is lost, and nothing is copied.

    ```yaml
    type: keep
    fields: [timestamp, source, user_name]
    ```
    """

    type: Literal["keep"] = "keep"
    names: tuple[Selector, ...] = Field(alias="fields", min_length=1, description="Fields to keep, or prefixes of them.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        return unknown_selectors(self.names, incoming)

    def takes_changes(self) -> bool:
        return True

    def keeps_values(self, name: str) -> bool:
        return True

    def fields(self, incoming: Schema) -> Schema:
        selected_names = self._select_names(incoming.names)
        return with_key_renamed(
            pa.schema([incoming.field(name) for name in selected_names]), incoming, {name: name for name in selected_names}
        )

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        selected_names = self._select_names(incoming.names)
        known = set(incoming.names)

        def run(batch: pa.RecordBatch) -> Outcome:
            others = [name for name in batch.schema.names if name not in known]
            return Outcome(batch.select(selected_names + others))

        return run

    def apply(self, events: DataFrame) -> DataFrame:
        read_at = [name for name in (ARRIVAL,) if name in events.columns]
        return events.select(*(events[quote_name(name)] for name in [*self._select_names(events.columns), *read_at]))

    def _select_names(self, names: list[str]) -> list[str]:
        selection = Selection(names)
        named = [name for selector in self.names for name in selection.of(selector)]
        return list(dict.fromkeys([*named, *(name for name in names if name in HIDDEN)]))
