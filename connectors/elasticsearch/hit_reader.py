"""Hits → events: the document as text or as declared fields, with its id and index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors.elasticsearch.hits import Hits
from etl.api import OFFSET, ArrowStep, Finding, Rejects, Schema

MESSAGE = "message"


@dataclass(frozen=True)
class HitReader:
    """What events get from a hit."""

    declared: Mapping[str, str]
    id_field: str | None
    index_field: str | None

    def check(self) -> Iterable[Finding]:
        """Yield the parser's findings about the declared fields, and names that are given twice."""
        incoming = self._incoming_schema
        yield from self._json().check(incoming)
        for option, name in (("id_field", self.id_field), ("index_field", self.index_field)):
            if name in self.declared:
                yield Finding("field-conflict", f"{name!r} is already a declared field", (option,))

    def fields(self) -> Schema:
        """Return the events' fields."""
        return self._json().fields(self._incoming_schema) if self.declared else self._incoming_schema

    def open(self) -> Callable[[Hits], Iterator[pa.RecordBatch | Rejects]]:
        """Compile once a task; returns a function from hits to batches."""
        parse = self._json().open(self._incoming_schema) if self.declared else None

        def read(hits: Hits) -> Iterator[pa.RecordBatch | Rejects]:
            batch = self._batch(hits)
            if parse is None:
                yield batch
                return
            outcome = parse(batch)
            yield from outcome.rejects
            if outcome.events.num_rows:
                yield outcome.events

        return read

    def _batch(self, hits: Hits) -> pa.RecordBatch:
        columns: dict[str, Any] = {MESSAGE: hits.source}
        columns |= {self.id_field: hits.id} if self.id_field else {}
        columns |= {self.index_field: hits.index} if self.index_field else {}
        return pa.RecordBatch.from_pydict({**columns, OFFSET: hits.document_numbers()})

    @property
    def _incoming_schema(self) -> Schema:
        names = [MESSAGE, *(name for name in (self.id_field, self.index_field) if name)]
        return pa.schema([(name, pa.string()) for name in names])

    def _json(self) -> ArrowStep:
        from parsers.json.parser import Json

        return Json.model_validate({"type": "json", "fields": dict(self.declared)})
