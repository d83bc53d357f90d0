"""The options that all steps of this folder share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pydantic import Field

from etl.api import Duration, FieldName, Finding, Schema, StatefulStep, format_duration, format_type, unknown_field, visible
from etl.expressions import analyse
from etl.state.changes.key_limits import MAX_BYTES_OF_KEY, MAX_ROWS_OF_KEY
from etl.steps.heartbeats import ARRIVAL
from etl.steps.option_checks import length_finding, time_findings, unused_option


class KeyedStep(StatefulStep):
    """A step on the state lane that decides about each event by those with the same keys."""

    keys: tuple[FieldName, ...] = Field(
        description="Fields that two events of one key have in common; null is a value.", min_length=1, examples=[["source.ip"]]
    )
    time: FieldName | None = Field(
        default=None, description="Event time field, a timestamp; without it the time of reading counts."
    )
    late: Duration = Field(
        default=timedelta(seconds=10), description="How far behind the latest event time an event may come and still count."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Unknown fields, a time that is not a timestamp, keys that cannot be compared."""
        yield from key_findings(self.keys, incoming)
        if self.time is not None:
            yield from time_findings(self.time, incoming)

    def fields(self, incoming: Schema) -> Schema:
        """The incoming fields."""
        return visible(incoming)

    def event_time(self) -> tuple[str, timedelta]:
        """The time field and lateness; time of reading is never late."""
        return (self.time, self.late) if self.time else (ARRIVAL, timedelta(0))

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """The keys with their types, and the time."""
        types = {f"key {name}": format_type(incoming.field(name).type) for name in self.keys}
        return {"time": self.event_time()[0], **types}


def key_findings(keys: Sequence[str], incoming: Schema) -> Iterator[Finding]:
    """Keys that are not fields, or have no equality."""
    from etl.state.key_hash import is_key_type

    for at, name in enumerate(keys):
        if name not in incoming.names:
            yield unknown_field(name, incoming, ("keys", at))
        elif not is_key_type(incoming.field(name).type):
            shown = format_type(incoming.field(name).type)
            yield Finding("wrong-type", f"key {name!r} is {shown}, which has no equality", ("keys", at), "use its members")


def ttl_findings(ttl: timedelta | None, bound: str, is_bounded: bool) -> Iterator[Finding]:
    """A time to live that is not positive, or of a step whose state has another bound."""
    if ttl is not None:
        yield from length_finding("ttl", ttl)
        if is_bounded:
            yield unused_option("ttl", f"{bound} already says how long state is kept", f"leave out ttl, or {bound}")


def bound_of_keys(ttl: timedelta | None) -> str:
    """For `etl explain`: how long the state of a key is kept."""
    if ttl is None:
        return "keeps the state of every key for ever: ttl removes that of keys without events"
    return f"keeps the state of a key for {format_duration(ttl)} of event time after its last event"


def ranking_findings(expression: str, incoming: Schema, path: tuple[str, ...]) -> Iterator[Finding]:
    """Problems of an expression by which events are ranked."""
    found = analyse(expression, visible(incoming))
    yield from found.findings_at(*path)
    if found.errors:
        return
    if found.spark_reason:
        message = f"it needs Spark, which does not run this step: {found.spark_reason}"
        yield Finding("bad-expression", message, path, "compute it in an earlier set", at=0)
    elif pa.types.is_nested(found.type) or pa.types.is_null(found.type):
        message = f"events are ranked by a number, time or text, and this is {format_type(found.type)}"
        yield Finding("wrong-type", message, path, "use a member of it, or give it a type", at=0)


def bound_of_recomputed() -> str:
    """For `etl explain`: the largest key of a step that computes all rows of a key again."""
    rows, size = f"{MAX_ROWS_OF_KEY:,}", f"{MAX_BYTES_OF_KEY >> 30} GiB"
    return f"computes all rows of a key again with each change: a key of more than {rows} rows or {size} ends the run"


def bound_of_other_side() -> str:
    """For `etl explain`: the largest key of a join with changing results."""
    rows, size = f"{MAX_ROWS_OF_KEY:,}", f"{MAX_BYTES_OF_KEY >> 30} GiB"
    return f"a row reads the rows of its key on the other side: a key of more than {rows} rows or {size} there ends the run"


MICROSECOND = timedelta(microseconds=1)
