"""Encodes events as bodies of the bulk API: an action and a document for each, written by the JSON kernel in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from connectors.elasticsearch.index_naming import TIME_FIELD, index_names
from connectors.shared import json_lines
from connectors.shared.json_lines import Frame
from connectors.shared.path_template import Template, parse_template
from etl.api import IDENTITY, is_changing, signs, visible

if TYPE_CHECKING:
    from etl.columns.json.lines import Lines

Action = Literal["create", "index", "update"]

MAX_ID_BYTES = 512
"""Longest id that the server accepts, in bytes; a longer one fails the whole request."""

UPDATE_RETRIES = 3
"""How often the server retries an update whose document was changed by another."""


@dataclass(frozen=True, slots=True)
class BulkEncoding:
    """How events become bulk actions: index, id (no fields: the event's identity), routing."""

    action: Action
    index: str
    id: tuple[str, ...] = ()
    routing: str | None = None
    time_field: str | None = None

    @property
    def path(self) -> str:
        """Path of the requests."""
        return "/_bulk" if self._template.fields or self._template.dates else f"/{quote(self.index)}/_bulk"

    def ids(self, batch: pa.RecordBatch) -> pa.Array:
        r"""Return each event's id. Several fields are joined by ``|``; in values it is escaped as ``\\|``."""
        if not self.id:
            return batch.column(IDENTITY)
        texts = [batch.column(name).cast(pa.string()) for name in self.id]
        if len(texts) == 1:
            return texts[0]
        escaped = [pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), "|", "\\|") for text in texts]
        return pc.binary_join_element_wise(*escaped, "|")

    def field_indices(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return each event's index; None if the name contains no field."""
        return index_names(self._template, batch, self.time_field or TIME_FIELD) if self._template.fields else None

    def lines(self, batch: pa.RecordBatch) -> Lines:
        """Return two lines for each event, concatenated, with the total bytes of both; one for a document that is deleted."""
        if not is_changing(batch.schema):
            return self._documents(batch)
        is_added = signs(batch) > 0
        parts = (is_added, self._documents), (~is_added, self._deletions)
        return json_lines.merged_lines([(mask, write(batch.filter(pa.array(mask)))) for mask, write in parts if mask.any()])

    def _documents(self, batch: pa.RecordBatch) -> Lines:
        members = dict(self._members(batch))
        start = f'{{"{self.action}":{{'
        names = [f'{"," if number else start}"{name}":' for number, name in enumerate(members)]
        document = batch.select(visible(batch.schema).names)
        return json_lines.write_framed(document, self._frame(names), list(members.values()))

    def _deletions(self, batch: pa.RecordBatch) -> Lines:
        members = {f"delete.{name}": column for name, column in self._members(batch)}
        return json_lines.write_framed(pa.RecordBatch.from_pydict(members), json_lines.PLAIN)

    def _frame(self, names: Sequence[str]) -> Frame:
        """The text around each document: the action with its members, and the end of an update."""
        if self.action == "update":
            return Frame((*names, f',"retry_on_conflict":{UPDATE_RETRIES}}}}}\n{{"doc":'), ',"doc_as_upsert":true}')
        return Frame((*names, "}}\n"))

    def _members(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
        if self.path == "/_bulk":
            yield "_index", index_names(self._template, batch, self.time_field or TIME_FIELD)
        yield "_id", self.ids(batch)
        if self.routing is not None:
            yield "routing", batch.column(self.routing).cast(pa.string())

    @property
    def _template(self) -> Template:
        return parse_template(self.index)


def find_bad_ids(ids: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Return which rows have an id that the server does not accept, and the reasons; None if there are none."""
    lengths = pc.binary_length(ids)
    bad = pc.fill_null(pc.or_(pc.equal(lengths, 0), pc.greater(lengths, MAX_ID_BYTES)), True)
    if not bad.true_count:
        return None
    reasons = pc.binary_join_element_wise(pc.cast(lengths.filter(bad), pa.string()), f"bytes, not 1 to {MAX_ID_BYTES}", " ")
    return bad, pc.fill_null(reasons, "a field of the id is null")
