"""Rows that a generator of a query (``explode`` and the like) makes of events, from arguments that are fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ArrowStep, Outcome, PlanError, Rejects, Schema, SparkStep, with_columns, with_fields, without
from etl.columns.texts import filter_batch
from etl.expressions import quote_name
from etl.steps.selecting.generators import Generator
from etl.steps.unnest import CODE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class MakeRows(ArrowStep):
    """Replace each event by the rows that a generator makes of it; its arguments leave, columns of its rows are added."""

    type: Literal["sql"] = "sql"
    generator: Generator
    arguments: tuple[str, ...]
    """The fields that have the arguments."""
    columns: tuple[str, ...]
    """The fields that take the columns of the rows."""

    def fields(self, incoming: Schema) -> Schema:
        types = self._types(incoming)
        return with_fields(without(incoming, self.arguments), dict(zip(self.columns, types, strict=True)))

    def _types(self, incoming: Schema) -> list[pa.DataType]:
        found = [type_ for _, type_ in self.generator.columns([incoming.field(name).type for name in self.arguments])]
        return [*found, *[pa.null()] * len(self.columns)][: len(self.columns)]

    def may_multiply_events(self) -> bool:
        return True

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        from etl.steps.event_copies import MAX_COPIED_BYTES, find_too_large

        given = [incoming.field(name).type for name in self.arguments]
        mistake = self.generator.mistake(given)
        if mistake is not None or len(self.generator.columns(given)) != len(self.columns):
            raise PlanError(mistake or f"{self.generator.function} makes {len(self.generator.columns(given))} columns")
        types = self._types(incoming)

        def run(batch: pa.RecordBatch) -> Outcome:
            values = [batch.column(name) for name in self.arguments]
            others = batch.drop_columns(list(self.arguments))
            counts, columns = self._rows(values, types)
            too_large = find_too_large(others, counts)
            if too_large is not None:
                fitting = pc.invert(too_large)
                limit = MAX_COPIED_BYTES >> 20
                reason = f"the events made of a batch would take more than {limit} MiB, and those of this one take the most"
                rejects = Rejects(filter_batch(others, too_large), CODE, reason)
                return Outcome(run(filter_batch(batch, fitting)).events, (rejects,))
            return Outcome(self._with_rows(others, counts, columns))

        return run

    def _with_rows(self, others: pa.RecordBatch, counts: Any, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        import numpy as np

        from etl.steps.event_copies import copy_events

        if not self.generator.is_outer and not counts.all():
            others, counts = filter_batch(others, pa.array(counts > 0)), counts[counts > 0]
        copied, at = copy_events(others, counts, np.arange(counts.sum()))
        if len(at) > int(counts.sum()):  # events without rows
            rows = pa.array(at, mask=at < 0)
            columns = [column.take(rows) for column in columns]
        return with_columns(copied, dict(zip(self.columns, columns, strict=True)))

    def _rows(self, values: list[pa.Array], types: list[pa.DataType]) -> tuple[Any, list[pa.Array]]:
        """How many rows each event has, and the columns of all rows."""
        import numpy as np

        if self.generator.function == "stack":
            counts = np.full(len(values[0]), self.generator.rows)
            stacked = zip(self.generator.stacked(values), types, strict=True)
            return counts, [_alternate(column, type_, self.generator.rows) for column, type_ in stacked]
        array = _as_lists(values[0])
        counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
        found = array.flatten()
        if self.generator.function == "inline" or pa.types.is_map(values[0].type):
            columns = [pc.struct_field(found, [number]) for number in range(found.type.num_fields)]
        else:
            columns = [found]
        if self.generator.function == "posexplode":
            first = np.repeat(np.cumsum(counts) - counts, counts)
            columns.insert(0, pa.array(np.arange(len(found)) - first, types[0]))
        return counts, columns


def _as_lists(array: pa.Array) -> pa.Array:
    """Maps as lists of their entries."""
    if not pa.types.is_map(array.type):
        return array
    entry = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
    return array.cast(pa.list_(entry))


def _alternate(columns: Sequence[pa.Array], type_: pa.DataType, rows: int) -> pa.Array:
    """Values of the columns by turns: for each event those of all columns, and nulls up to that number of rows."""
    import numpy as np

    length = len(columns[0])
    known = [column.cast(type_) for column in columns]
    lacking = [pa.nulls(length, type_)] * (rows - len(known))
    order = np.arange(length * rows).reshape(rows, length).T.reshape(-1)
    return pa.concat_arrays([*known, *lacking]).take(pa.array(order))


class JsonTuple(SparkStep):
    """Add the values of keys of a JSON text, which Spark computes: no text is an error of it."""

    type: Literal["sql"] = "sql"
    arguments: tuple[str, ...]
    columns: tuple[str, ...]

    def fields(self, incoming: Schema) -> Schema:
        return with_fields(without(incoming, self.arguments), dict.fromkeys(self.columns, pa.string()))

    def reason(self, incoming: Schema) -> str | None:
        return "json_tuple() has no Arrow form"

    def apply(self, events: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        given = [F.col(quote_name(name)) for name in self.arguments]
        others = [quote_name(name) for name in events.columns if name not in self.arguments]
        return events.select(*others, F.call_function("json_tuple", *given).alias(*self.columns))
