"""The source `inline`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from connectors.lookup_tables.casting import cast_texts
from etl.api import OFFSET, FieldName, Finding, Limit, Offset, Schema, Source, Split, TypeName, format_type, nearest, parse_type

MAX_BATCH_ROWS = 10_000
"""Rows that a split gives at once."""


class InlineSource(Source):
    """Give the rows that stand in the pipeline file itself, once, in their order.

    For demonstrations, tests, and SQL's ``VALUES``. A field that a row lacks is null. Rows are read as one split; the source
    ends after the last one. Delivery: exactly once, up to the sinks' guarantees, as long as the rows stay the same; rows that are
    added at the end of the list are read by the next run with the same state folder. Memory: the rows.

    ```yaml
    type: inline
    fields: {time: timestamp, user_name: string, failures: int}
    rows:
      - {time: "2026-01-01T10:00:00Z", user_name: root, failures: 3}
      - {time: "2026-01-01T10:00:05Z", user_name: admin}
    ```
    """

    type: Literal["inline"] = "inline"
    declared: dict[FieldName, TypeName] = Field(
        alias="fields", min_length=1, description="Field → type.", examples=[{"id": "bigint", "name": "string"}]
    )
    rows: list[Mapping[str, str | int | float | bool | None]] = Field(description="The rows: field → value.")

    def check(self) -> Iterable[Finding]:
        """Check that rows have declared fields only, of their types."""
        for name, type_ in self.declared.items():
            if pa.types.is_nested(parse_type(type_)):
                yield Finding(
                    "unreadable-type", f"{name!r} is {type_}, but a field of a row holds a single value", ("fields", name)
                )
                return
        for at, row in enumerate(self.rows):
            for name in row:
                if name not in self.declared:
                    message, hint = f"{name!r} is not declared in fields", nearest(name, self.declared)
                    yield Finding("unknown-field", message, ("rows", at, name), hint)
        for name, field in zip(self.declared, self.fields(), strict=True):
            texts = self._texts(name, 0, len(self.rows))
            lost = cast_texts(texts, field.type).is_null().to_pylist()
            for at, (text, is_lost) in enumerate(zip(texts.to_pylist(), lost, strict=True)):
                if is_lost and text and text.strip():
                    message = f"{self.rows[at][name]!r} is not a {format_type(field.type)}, the type of {name!r}"
                    yield Finding("wrong-type", message, ("rows", at, name))

    def fields(self) -> Schema:
        """The declared fields."""
        return pa.schema([(name, parse_type(type_)) for name, type_ in self.declared.items()])

    def start(self) -> Offset:
        """The first row."""
        return {"row": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """The end of the rows, or what the limit allows."""
        ends = [len(self.rows)]
        if limit.max_events is not None:
            ends.append(start["row"] + limit.max_events)
        if limit.until is not None:
            ends.append(limit.until["row"])
        return {"row": max(start["row"], min(ends))}

    def ended(self, offset: Offset) -> bool:
        """Whether all rows are read."""
        return bool(offset["row"] >= len(self.rows))

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """One split."""
        return [Split("inline", start["row"], end["row"])] if start["row"] < end["row"] else []

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows as batches."""
        edges = [*range(split.start, split.end, MAX_BATCH_ROWS), split.end]
        for first, last in pairwise(edges):
            columns = [cast_texts(self._texts(field.name, first, last), field.type) for field in self.fields()]
            offsets = pa.array(range(first, last), pa.int64())
            yield pa.RecordBatch.from_arrays([*columns, offsets], names=[*self.declared, OFFSET])

    def _texts(self, name: str, first: int, last: int) -> pa.Array:
        as_text = _instant if pa.types.is_timestamp(parse_type(self.declared[name])) else _text
        return pa.array([as_text(row.get(name)) for row in self.rows[first:last]], pa.string())


def _text(value: Any) -> str | None:
    """A value as YAML writes it."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _instant(value: Any) -> str | None:
    """A time with its zone, UTC where it has none; another text as it is."""
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return _text(value)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()
