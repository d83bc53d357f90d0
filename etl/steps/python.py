"""Call a Python function with whole events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

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
    unknown_field,
    visible,
    with_columns,
    with_fields,
)
from etl.steps.field_selection import conflict_finding, reserved_name, struct_conflicts
from etl.steps.function_options import FunctionStep

CODE = "function-failed"
"""The code of events for which a function failed."""


class Python(FunctionStep, ArrowStep):
    """Call a Python function with whole events: one after the other as dicts, or many as a record batch.

    `functions` of the file names the function, its annotations say how it is called ([functions of your
    own](../../own-functions.md)):

    | signature | |
    | --- | --- |
    | `def f(event: dict) -> dict` | gives an event for each |
    | `def f(event: dict) -> dict \\| None` | drops the event with `None` |
    | `def f(event: dict) -> list[dict]` or `Iterator[dict]` | gives any number of events for each |
    | `def f(batch: pa.RecordBatch) -> pa.RecordBatch` | gives a batch for a batch |

    A dict has the event's fields by their flat names (`source.ip`). This is slow: two to five microseconds of Python for each
    event, where other steps need some hundred nanoseconds; `read` limits it to the fields that the function needs. A record
    batch costs what is done with it.

    Of the result only the fields in `fields` are used, with these types, null where a dict lacks one; all others stay as they
    were. A field that is neither there nor declared is an error. A batch with another number of events than it got needs the
    column `_offset`, which says which event each one is of; events stay in their order.

    An event for which the function raises an error, or gives a value of another type, goes to the dead letters with the code
    `function-failed` and the last line of the traceback. A batch is called again for its halves to find such events. A call that
    takes longer than the function's `timeout` is ended, and its events are dead letters. The function must give the same
    result when it gets an event again: after a crash a micro-batch is run again.

    ```yaml
    type: python
    function: score
    read: [user_name, bytes]
    fields: {score: double}
    ```
    """

    type: Literal["python"] = "python"
    read: tuple[FieldName, ...] = Field(
        default=(), description="Fields that the function gets; without this option all.", examples=[["user_name", "bytes"]]
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Unknown fields, names that are taken, a function that takes no events."""
        for at, name in enumerate(self.read):
            if name not in incoming.names:
                yield unknown_field(name, incoming, ("read", at))
        names = self.fields(incoming).names
        for name in self.fields_given:
            path = ("fields", name)
            yield from reserved_name(name, path)
            yield from (conflict_finding(name, other, path) for one, other in struct_conflicts(names, [name]) if one == name)
        hint = "annotate def f(event: dict) -> dict, or call it in an expression of a `set` step"
        yield from self.check_form(("events", "batches"), "one event or of a batch", hint)

    def fields(self, incoming: Schema) -> Schema:
        """The incoming fields, and those that the function gives."""
        return with_fields(incoming, self.result_types)

    def may_multiply_events(self) -> bool:
        """Whether the function gives lists of events, or batches."""
        return self._function is not None and self._function.multiplies

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """The call for batches; the code is run at the first one."""
        from etl.udf.event_calls import EventCaller

        assert self._function is not None
        given = pa.schema(list(self.result_types.items()))
        known = frozenset([*visible(incoming).names, *given.names])
        call = EventCaller(self._function, given, self.read or visible(incoming).names, known)

        def run(batch: pa.RecordBatch) -> Outcome:
            rows, columns, failures = call(batch)
            rejects: tuple[Rejects, ...] = ()
            if failures:
                at = sorted(failures)
                rejects = (Rejects(batch.take(pa.array(at)), CODE, pa.array([failures[row] for row in at], pa.string())),)
            is_whole = len(rows) == batch.num_rows and (len(rows) == 0 or bool((rows[1:] > rows[:-1]).all()))
            return Outcome(with_columns(batch if is_whole else pc.take(batch, pa.array(rows)), columns), rejects)

        return run
