"""Events as bodies of the bulk API: an action and a document each, written by the JSON kernel in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from connectors import json_lines
from connectors.elasticsearch.names import TIME_FIELD, index_names
from connectors.file.templates import Template, parse_template
from connectors.json_lines import Frame
from etl.api import IDENTITY, visible

if TYPE_CHECKING:
    from etl.columns.json_lines import Lines

Action = Literal["create", "index", "update"]

LONGEST_ID = 512
"""Bytes that the server takes; a longer one fails the whole request, not its document."""

CONFLICTS = 3
"""How often the server tries an update again whose document another changed."""


@dataclass(frozen=True, slots=True)
class Documents:
    """What becomes of events: where they go, and under which id (of no fields: the event's identity)."""

    action: Action
    index: str
    id: tuple[str, ...] = ()
    routing: str | None = None
    time_field: str | None = None

    @property
    def path(self) -> str:
        """Where bodies are sent."""
        return "/_bulk" if self._template.fields or self._template.dates else f"/{quote(self.index)}/_bulk"

    def ids(self, batch: pa.RecordBatch) -> pa.Array:
        """Each event's id. Of several fields: joined by ``|``, which a value has as ``\\|``."""
        if not self.id:
            return batch.column(IDENTITY)
        texts = [batch.column(name).cast(pa.string()) for name in self.id]
        if len(texts) == 1:
            return texts[0]
        escaped = [pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), "|", "\\|") for text in texts]
        return pc.binary_join_element_wise(*escaped, "|")

    def field_indices(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Each event's index; None where no field is in its name."""
        return index_names(self._template, batch, self.time_field or TIME_FIELD) if self._template.fields else None

    def lines(self, batch: pa.RecordBatch) -> Lines:
        """Two lines for each event, one behind the other, with the bytes of both."""
        members = dict(self._members(batch))
        start = f'{{"{self.action}":{{'
        front = [f'{"," if number else start}"{name}":' for number, name in enumerate(members)]
        document = batch.select(visible(batch.schema).names)
        return json_lines.framed(document, self._framed(front), list(members.values()))

    def _framed(self, front: Sequence[str]) -> Frame:
        if self.action == "update":
            return Frame((*front, f',"retry_on_conflict":{CONFLICTS}}}}}\n{{"doc":'), ',"doc_as_upsert":true}')
        return Frame((*front, "}}\n"))

    def _members(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
        if self.path == "/_bulk":
            yield "_index", index_names(self._template, batch, self.time_field or TIME_FIELD)
        yield "_id", self.ids(batch)
        if self.routing is not None:
            yield "routing", batch.column(self.routing).cast(pa.string())

    @property
    def _template(self) -> Template:
        return parse_template(self.index)


def refused_ids(ids: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Which rows have an id that the server does not take, and why; None when there is none."""
    lengths = pc.binary_length(ids)
    bad = pc.fill_null(pc.or_(pc.equal(lengths, 0), pc.greater(lengths, LONGEST_ID)), True)
    if not bad.true_count:
        return None
    said = pc.binary_join_element_wise(pc.cast(lengths.filter(bad), pa.string()), f"bytes, of 1 to {LONGEST_ID}", " ")
    return bad, pc.fill_null(said, "a field of the id is null")
