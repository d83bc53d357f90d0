"""Bodies of INSERT requests: the columns of a table as an Arrow stream."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc

from connectors.clickhouse.column_values import find_misfits, prepare_values
from connectors.clickhouse.tables import quote_name, quote_table
from connectors.http.bodies import batch_key
from connectors.http.connection import Response
from connectors.shared.field_texts import to_texts
from connectors.shared.value_sizes import sum_value_sizes


@dataclass(frozen=True)
class InsertBodies:
    """How events become rows. A request is one block of the table: ClickHouse accepts it completely or not at all."""

    table: str
    columns: Mapping[str, str]
    """Fields and the columns that take them."""
    types: Mapping[str, str]
    """ClickHouse's types of these columns."""
    settings: Mapping[str, str]
    """ClickHouse's settings of each request."""

    method: ClassVar[str] = "POST"
    type: ClassVar[str] = "application/vnd.apache.arrow.stream"
    rejected_code: ClassVar[str] = "clickhouse-rejected"

    @property
    def path(self) -> str:
        """Path with the statement and the settings."""
        names = ", ".join(map(quote_name, self.columns.values()))
        statement = f"INSERT INTO {quote_table(self.table)} ({names}) FORMAT ArrowStream"
        return "/?" + urlencode({"query": statement, **self.settings})

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the bytes of each event's values."""
        return sum_value_sizes([batch.column(name) for name in self.columns], batch.num_rows)

    def encode(self, batch: pa.RecordBatch) -> EncodedRows:
        """Return the columns under the names of the table."""
        columns = [prepare_values(batch.column(name), self.types[column]) for name, column in self.columns.items()]
        return EncodedRows(pa.RecordBatch.from_arrays(columns, names=[*self.columns.values()]))

    def find_misfits(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array] | None:
        """Return which events ClickHouse would store with another value (a mask), and the reason for each of them."""
        bad, reasons = pa.repeat(False, batch.num_rows), pa.nulls(batch.num_rows, pa.string())
        for name, column in self.columns.items():
            values = batch.column(name)
            found = find_misfits(values, self.types[column])
            if found is not None:
                reason = f" does not fit column {column!r} of type {self.types[column]}"
                bad = pc.or_(bad, found)
                reasons = pc.coalesce(reasons, pc.if_else(found, pc.binary_join_element_wise(to_texts(values), reason, ""), None))
        return (bad, reasons.filter(bad)) if bad.true_count else None

    def headers(self, rows: pa.RecordBatch) -> Mapping[str, str]:
        """Return nothing: the token that identifies the rows is a setting, and stands in the path."""
        return {}

    def divide(self, response: Response, count: int) -> Sequence[int]:
        """Return the middle: ClickHouse stores nothing of a block with a bad row, and does not name the row."""
        return (count // 2,)


class EncodedRows(NamedTuple):
    """Rows of a table."""

    rows: pa.RecordBatch

    def body(self, first: int, last: int) -> memoryview:
        """Return the rows as a stream of one record batch."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as writer:
            writer.write_batch(self.rows.slice(first, last - first))
        return memoryview(sink.getvalue())


def block_token(rows: pa.RecordBatch, body: memoryview, is_ordered: bool) -> str:
    """Return the text by which ClickHouse recognises a block that is written again.

    It is a hash of the identities of its events, which do not change when the split is read again. In results whose order may
    change an identity may belong to another row then, so the hash is of the rows themselves: rows in another order are
    written twice, and none is taken for another.
    """
    if not is_ordered:
        return hashlib.sha256(body).hexdigest()[:32]
    return batch_key(rows)
