"""Make a changelog of events that have a row before and after a change, as messages of Debezium do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import (
    CHANGE,
    DELETE,
    INSERT,
    ArrowStep,
    FieldName,
    Finding,
    Outcome,
    Rejects,
    Schema,
    format_type,
    is_changing,
    unknown_field,
    with_changes,
    with_fields,
    without,
)

CODE = "bad-change"
_ADDS = ("c", "r", "u")
_REMOVES = ("d", "u")
_KNOWN = ("c", "r", "u", "d")


class Changelog(ArrowStep):
    """Make a changelog of events that have a row before and after a change, as messages of Debezium do.

    The members of ``after`` and ``before``, which are the same, become the fields of rows, under their own names. ``op`` says
    what an event does: `c` (create) and `r` (read) add the row ``after``, `d` (delete) removes the row ``before``, and `u`
    (update) does both. Later steps and sinks take the rows as [changes of results](../../changes.md). Other fields stay.

    An event without the row that its ``op`` needs is rejected with the code ``bad-change``, and so is one with another ``op``: a
    database that does not write the row before an update has to be configured to do so (`REPLICA IDENTITY FULL` in PostgreSQL).
    With
    ``key``, sinks that replace rows by a key accept the changes: each key then has the row of its last event.

    Each message is applied once: a message that the source has twice changes the rows twice.

    ```yaml
    type: changelog
    key: [id]
    ```
    """

    type: Literal["changelog"] = "changelog"
    before: FieldName = Field(default="before", description="Field whose members are the row before the change.")
    after: FieldName = Field(default="after", description="Field whose members are the row after the change.")
    op: FieldName = Field(default="op", description="Field with what the event does: c, r, u or d.")
    key: tuple[FieldName, ...] = Field(
        default=(), description="Fields of rows by which they replace each other; none means all fields.", examples=[["id"]]
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Find missing rows, an ``op`` without texts, members of two types, an unknown key, and events that are changes
        already."""
        if is_changing(incoming):
            yield Finding("changing-results", "events of this stream are changes already", (), "leave the step out")
        if self.op not in incoming.names:
            yield unknown_field(self.op, incoming, ("op",))
        elif not (pa.types.is_string(type_ := incoming.field(self.op).type) or pa.types.is_null(type_)):
            yield Finding("wrong-type", f"{self.op!r} is {format_type(type_)}, and not a text: c, r, u or d", ("op",))
        names = self._names(incoming)
        if not names:
            hint = f"read them before: fields {self.after}.… and {self.before}.…"
            yield Finding("unknown-field", f"there are no members of {self.after!r}", ("after",), hint)
        for name in names:
            before, after = (incoming.get_field_index(f"{row}.{name}") for row in (self.before, self.after))
            if before < 0:
                yield unknown_field(f"{self.before}.{name}", incoming, ("before",))
            elif incoming.field(before).type != incoming.field(after).type:
                message = f"{name!r} has another type before a change than after it"
                yield Finding("wrong-type", message, ("before",), "read both with one type")
        for at, name in enumerate(self.key):
            if names and name not in names:
                yield unknown_field(name, pa.schema([(one, pa.string()) for one in names]), ("key", at))

    def fields(self, incoming: Schema) -> Schema:
        """The fields of the row, and the other fields of the event."""
        names = self._names(incoming)
        others = without(incoming, [self.op, *(f"{row}.{name}" for row in (self.before, self.after) for name in names)])
        types = {name: incoming.field(f"{self.after}.{name}").type for name in names}
        return with_changes(with_fields(others, types), self.key or None)

    def may_multiply_events(self) -> bool:
        """An update becomes two events."""
        return True

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Give the rows with the kinds of their changes."""
        names = self._names(incoming)

        def run(batch: pa.RecordBatch) -> Outcome:
            op = batch.column(self.op).cast(pa.string())
            removes, adds = (pc.fill_null(pc.is_in(op, pa.array(kinds)), False) for kinds in (_REMOVES, _ADDS))
            before, after = (_exists(batch, [f"{row}.{name}" for name in names]) for row in (self.before, self.after))
            has_rows = pc.and_(pc.or_(before, pc.invert(removes)), pc.or_(after, pc.invert(adds)))
            fits = pc.and_(pc.or_(removes, adds), has_rows)
            rejects: tuple[Rejects, ...] = ()
            if not pc.all(fits).as_py():
                failed = batch.filter(pc.invert(fits))
                rejects = (Rejects(failed, CODE, self._reasons(failed.column(self.op))),)
                batch, removes, adds = batch.filter(fits), removes.filter(fits), adds.filter(fits)
            return Outcome(self._changes(batch, names, removes, adds), rejects)

        return run

    def _changes(self, batch: pa.RecordBatch, names: Sequence[str], removes: pa.Array, adds: pa.Array) -> pa.RecordBatch:
        import numpy as np

        both = np.stack([removes.to_numpy(zero_copy_only=False), adds.to_numpy(zero_copy_only=False)], axis=1)
        at, is_added = np.nonzero(both)  # an update first removes the old row, then adds the new one
        rows = pa.array(at)
        chosen = pa.array(at + is_added * batch.num_rows)
        columns: dict[str, Any] = {}
        members = {f"{row}.{name}" for row in (self.before, self.after) for name in names}
        for name in batch.schema.names:
            if name not in members and name != self.op:
                columns[name] = batch.column(name).take(rows)
        for name in names:
            sides = [batch.column(f"{row}.{name}") for row in (self.before, self.after)]
            columns[name] = pa.concat_arrays(sides).take(chosen)
        columns[CHANGE] = pa.array(np.where(is_added == 1, INSERT, DELETE), pa.int8())
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _reasons(self, op: pa.Array) -> pa.Array:
        known = pc.fill_null(pc.is_in(op.cast(pa.string()), pa.array(_KNOWN)), False)
        lacks = f"the row {self.before!r} or {self.after!r} that its {self.op!r} needs is missing"
        return pc.if_else(known, lacks, f"{self.op!r} is none of c, r, u and d").cast(pa.string())

    def _names(self, incoming: Schema) -> list[str]:
        prefix = f"{self.after}."
        return [name.removeprefix(prefix) for name in incoming.names if name.startswith(prefix)]


def _exists(batch: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """bool[events]: whether any of these fields has a value."""
    found = pa.array([False] * batch.num_rows)
    for name in names:
        found = pc.or_(found, batch.column(name).is_valid())
    return found
