"""Give fields other names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import HIDDEN, ArrowStep, FieldName, Finding, Outcome, Schema, SparkStep, unknown_field, with_key_renamed
from etl.expressions import quote_name
from etl.steps.field_selection import Selection, conflict_finding, reserved_name, struct_conflicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Rename(ArrowStep, SparkStep):
    """Give fields other names, all at once, so that two can be exchanged.

    A prefix renames all fields under it: ``src: source`` makes ``src.ip`` to ``source.ip``. Fields keep their position.
    No event is lost, and nothing is copied.

    ```yaml
    type: rename
    fields:
      src_ip: source.ip
      host: host.name
    ```
    """

    type: Literal["rename"] = "rename"
    names: Mapping[FieldName, FieldName] = Field(
        alias="fields", min_length=1, description="Old names (fields or prefixes) and their new ones."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        renamed = self._map_names(incoming.names)
        after = list(renamed.values())
        selection, times, clashing = Selection(incoming.names), Counter(after), set(struct_conflicts(after, after))
        for old, new in self.names.items():
            path = ("fields", old)
            moved = [renamed[name] for name in selection.of(old)]
            if not moved:
                yield unknown_field(old, incoming, path)
            yield from reserved_name(old, path)
            yield from reserved_name(new, path)
            for name in moved:
                if times[name] > 1:
                    yield Finding("field-conflict", f"there would be two fields {name!r}", path)
            yield from (conflict_finding(name, other, path) for name, other in sorted(clashing) if name in moved)

    def takes_changes(self) -> bool:
        return True

    def fields(self, incoming: Schema) -> Schema:
        names = self._map_names(incoming.names)
        fields = {new: incoming.field(old).with_name(new) for old, new in names.items()}
        return with_key_renamed(pa.schema(list(fields.values())), incoming, names)

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        def run(batch: pa.RecordBatch) -> Outcome:
            names = list(self._map_names(batch.schema.names).values())
            return Outcome(pa.RecordBatch.from_arrays(batch.columns, names=names))

        return run

    def apply(self, events: DataFrame) -> DataFrame:
        renamed = self._map_names(events.columns)
        return events.select(*(events[quote_name(old)].alias(new) for old, new in renamed.items()))

    def _map_names(self, names: list[str]) -> dict[str, str]:
        """Every name → its new one; the longest prefix that is named decides."""
        return {name: name if name in HIDDEN else self._new(name) for name in names}

    def _new(self, name: str) -> str:
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            stem = ".".join(parts[:count])
            if stem in self.names:
                return ".".join([self.names[stem], *parts[count:]])
        return name
