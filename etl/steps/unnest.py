"""Make an event of each element of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import (
    ArrowStep,
    FieldName,
    Finding,
    Outcome,
    Rejects,
    Schema,
    flat_schema,
    flatten,
    format_type,
    unknown_field,
    with_columns,
    with_fields,
    with_key_renamed,
    without,
)
from etl.columns.texts import filter_batch
from etl.steps.field_selection import conflict_finding, reserved_name, struct_conflicts

CODE = "too-many-elements"


class Unnest(ArrowStep):
    """Make an event of each element of an array (SQL's UNNEST, Spark's ``explode``).

    The element takes the array's place; the other fields are copied to each event. Members of an object become fields of their
    own: ``records`` of type ``array<struct<id: int>>`` gives ``records.id``. A text stays a text, so an array of JSON
    objects that was read as ``array<string>`` gives the JSON of each, for a later step ``json``. Events made of one come one
    after the other, in the array's order, and sinks tell them apart. An element that is null makes an event with null.

    A text that is not an array is refused by the step that reads it; events that ``empty: drop`` drops count as filtered, the
    further events of one event as made. Memory: fields beside the array are copied for every element, so drop what is long and
    not needed before. If the events made of one batch would take more than 512 MiB, those with the most bytes are rejected with
    the code ``too-many-elements``.

    ```yaml
    type: unnest
    field: records
    ```
    """

    type: Literal["unnest"] = "unnest"
    field: FieldName = Field(description="The array.", examples=["records"])
    target: FieldName | None = Field(
        default=None, description="Field that takes the element; none means the array's own name.", examples=["message"]
    )
    position: FieldName | None = Field(
        default=None, description="Field that takes the element's position in the array, from 0.", examples=["records_index"]
    )
    empty: Literal["drop", "keep"] = Field(
        default="drop", description="What happens to an event whose array is empty or null; kept, it has null for the element."
    )

    takes_views: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        if self.field not in incoming.names:
            yield unknown_field(self.field, incoming, ("field",))
        elif not _is_array(type_ := incoming.field(self.field).type) and type_ != pa.null():
            message = f"field {self.field!r} is {format_type(type_)}, and unnest takes an array"
            hint = "declare it as array<string> where it is read" if type_ == pa.string() else None
            yield Finding("wrong-type", message, ("field",), hint)
        element, names = self._element(incoming).names, self.fields(incoming).names
        for option, given in (("target" if self.target else "field", element), ("position", [self.position])):
            for name in given:
                yield from reserved_name(name, (option,)) if name is not None else ()
                yield from (
                    conflict_finding(name, other, (option,)) for name, other in struct_conflicts(names, [name] if name else [])
                )
        if self.position in element:
            yield Finding("duplicate-field", f"two options fill the field {self.position!r}", ("position",))

    def takes_changes(self) -> bool:
        return True

    def fields(self, incoming: Schema) -> Schema:
        given = {field.name: field.type for field in self._element(incoming)}
        if self.position is not None:
            given[self.position] = pa.int64()
        return with_key_renamed(with_fields(without(incoming, [self.field]), given), incoming, {})

    def may_multiply_events(self) -> bool:
        return True

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        from etl.steps.event_copies import MAX_COPIED_BYTES, find_too_large

        def run(batch: pa.RecordBatch) -> Outcome:
            counts = _counts(batch.column(self.field))
            if self.empty == "drop" and not counts.all():
                batch, counts = filter_batch(batch, pa.array(counts > 0)), counts[counts > 0]
            too_large = find_too_large(batch.drop_columns([self.field]), counts)
            if too_large is None:
                return Outcome(self._unnest(batch, counts))
            fitting = pc.invert(too_large)
            events = self._unnest(filter_batch(batch, fitting), counts[fitting.to_numpy(zero_copy_only=False)])
            limit = MAX_COPIED_BYTES >> 20
            reason = f"the events made of a batch would take more than {limit} MiB, and those of this one take the most"
            return Outcome(events, (Rejects(filter_batch(batch, too_large), CODE, reason),))

        return run

    def _unnest(self, batch: pa.RecordBatch, counts: Any) -> pa.RecordBatch:
        import numpy as np

        from etl.steps.event_copies import copy_events

        array = batch.column(self.field)
        others, at = copy_events(batch.drop_columns([self.field]), counts, np.arange(counts.sum()))
        found = array.flatten() if _is_array(array.type) else pa.nulls(0)
        if len(at) > len(found):  # events without an element
            found = found.take(pa.array(at, mask=at < 0))
        columns = flatten(pa.record_batch({self.target or self.field: found}))
        given = dict(zip(columns.schema.names, columns.columns, strict=True))
        if self.position is not None:
            times = np.maximum(counts, 1)
            first = np.repeat(np.cumsum(times) - times, times)
            given[self.position] = pa.array(np.arange(len(at)) - first, mask=at < 0)
        return with_columns(others, given)

    def _element(self, incoming: Schema) -> Schema:
        """The fields that an element becomes."""
        type_ = incoming.field(self.field).type if self.field in incoming.names else pa.null()
        element = type_.value_type if _is_array(type_) else pa.null()
        return flat_schema(pa.schema([(self.target or self.field, element)]))


def _is_array(type_: pa.DataType) -> bool:
    return pa.types.is_list(type_) or pa.types.is_large_list(type_)


def _counts(array: pa.Array) -> Any:
    """Elements of each array (int64[n]); 0 where it is null."""
    import numpy as np

    if not _is_array(array.type):
        return np.zeros(len(array), np.int64)
    return pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
