"""Values that are computed from all events of a key, when the sources have ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.aggregates.all_rows import UP_TO_ROW, WHOLE, Frame, check_function, read_frame
from etl.aggregates.checks import Aggregate
from etl.api import OPTIONAL, Expression, FieldName, Finding, Operator, Schema, StatefulStep, format_type, visible, with_fields
from etl.expressions import analyse
from etl.expressions.widening import is_number
from etl.steps.heartbeats import ARRIVAL
from etl.steps.keyed.options import key_findings, ranking_findings
from etl.steps.option_checks import taken_name

if TYPE_CHECKING:
    from etl.state.changes.recomputed_results import RecomputedResults


class OverAll(StatefulStep):
    """Add values to each event that are computed from all events of its key, as SQL's OVER does over a table.

    Events pass when all sources have ended: those of files that are not followed, of a run with ``--drain``. Until then they
    are state. Without ``aggregates`` the events pass as they are, sorted by ``order_by`` if there are no ``keys``; those of a
    changelog as the rows that are left after all changes. Events of a source that goes on after a run with ``--drain`` are
    computed by the next run, without those of the run before.

    ``order_by`` orders the events of a key; null is smaller than any value. Events that are equal in it are peers. The
    ``frame`` says which events count for aggregates: without it all up to the event and its peers, and without ``order_by``
    all of the key. Bounds are `unbounded preceding`, `2 preceding`, `current row`, `2 following`, `unbounded following`; with
    `range` a number is a distance of values of the one expression in ``order_by``, and of timestamps a duration such as `10s`.

    | function | gives |
    | --- | --- |
    | `row_number()`, `rank()`, `dense_rank()` | bigint: the number of the event, peers with numbers of their own or with one |
    | `percent_rank()`, `cume_dist()` | double: the share of events before the event's peers, or up to them |
    | `ntile(4)` | bigint: the number of one of four groups of equal size |
    | `lag(x, 2, default)`, `lead(x)` | x of the event two before, of the next one; null or the default where there is none |
    | `nth_value(x, 2)` | x of the second event of the frame |
    | aggregates of the step `window` | their result over the frame |

    x is any expression over the event's fields that Arrow computes. `count`, `sum`, `avg`, `min`, `max`, `first` and `last` cost
    the same for any frame; each other aggregate as much as its frames have events together. State holds all events, divided
    into 16 parts by the hash of the keys; the memory of a part's events is needed at the end. Exactly-once across restarts.

    ```yaml
    type: over_all
    keys: [host]
    order_by: {bytes: descending}
    aggregates:
      place: rank()
      bytes_before: lag(bytes)
    ```
    """

    type: Literal["over_all"] = "over_all"
    keys: tuple[FieldName, ...] = Field(
        default=(), description="Fields that the events of one key have in common; without them all events are of one key."
    )
    order_by: dict[Expression, Literal["ascending", "descending"]] = Field(
        default={}, description="Expressions by which the events of a key are ordered.", examples=[{"bytes": "descending"}]
    )
    frame: str | None = Field(
        default=None,
        description="Which events count for an aggregate; none means those up to the event, or without an order all.",
        examples=["rows between 2 preceding and current row"],
    )
    aggregates: dict[FieldName, Expression] = Field(
        default={}, description="New fields and the functions that give them.", examples=[{"place": "rank()"}]
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Unknown keys, values without an order, bad functions, names that are taken, a bad frame."""
        yield from key_findings(self.keys, incoming)
        for expression in self.order_by:
            yield from ranking_findings(expression, incoming, ("order_by", expression))
        for name, one in self._checked_aggregates(incoming).items():
            yield from (replace(finding, path=("aggregates", name)) for finding in one.findings)
            yield from taken_name(name, visible(incoming).names, ("aggregates", name))
        yield from self._check_frame(incoming)

    def _check_frame(self, incoming: Schema) -> Iterable[Finding]:
        if self.frame is None:
            return
        frame = read_frame(self.frame)
        if isinstance(frame, str):
            hint = "write for example: rows between 2 preceding and current row"
            yield Finding("invalid-value", frame, ("frame",), hint)
        elif frame.goes_by_value:
            types = [analyse(one, visible(incoming)).type for one in self.order_by]
            has_distance = pa.types.is_temporal if frame.is_time else is_number
            if len(types) != 1 or not has_distance(types[0]):
                what = "one expression, a timestamp or date" if frame.is_time else "one expression, a number"
                yield Finding("wrong-type", f"distances of this frame need an order_by of {what}", ("frame",), "use rows between")

    def takes_changes(self) -> bool:
        """The rows that are left count."""
        return True

    def fields(self, incoming: Schema) -> Schema:
        """The incoming fields and the new ones."""
        return with_fields(visible(incoming), {name: one.type for name, one in self._checked_aggregates(incoming).items()})

    def event_time(self) -> tuple[str, timedelta]:
        """The time of reading."""
        return ARRIVAL, timedelta(0)

    def notes(self, incoming: Schema) -> Iterable[str]:
        """When results come."""
        yield "gives results when all sources have ended, or a run with --drain has read them"

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """The keys, and the fields of events."""
        events = {f"{OPTIONAL}{field.name}": format_type(field.type) for field in visible(incoming)}
        types = {f"key {name}": format_type(incoming.field(name).type) for name in self.keys}
        return {**types, **events}

    def operator(self, incoming: Schema) -> Operator:
        """All events of each key."""
        from etl.aggregates.calls import TextPart
        from etl.state.aggregates.argument import read_argument
        from etl.state.over.all_rows import AllRows, arguments_of, function_of

        known, checked, time = visible(incoming), self._checked_aggregates(incoming), self.event_time()[0]
        by = []
        for text, way in self.order_by.items():
            one = read_argument(text, TextPart(text, 0), None, known)
            assert not isinstance(one, str), one
            by.append((one, way == "ascending"))
        functions = {name: function_of(text, known, checked[name].type, time) for name, text in self.aggregates.items()}
        arguments = [one for text in self.aggregates.values() for one in arguments_of(text, known)]
        made: RecomputedResults = AllRows(
            self.fields(incoming),
            incoming,
            self.keys,
            time,
            None,
            order_by=tuple(by),
            frame=self._frame(),
            functions=functions,
            arguments=arguments,
        )
        return made

    def _frame(self) -> Frame:
        if self.frame is None:
            return UP_TO_ROW if self.order_by else WHOLE
        frame = read_frame(self.frame)
        assert not isinstance(frame, str), frame
        return frame

    def _checked_aggregates(self, incoming: Schema) -> dict[str, Aggregate]:
        known = visible(incoming)
        return {name: check_function(text, known) for name, text in self.aggregates.items()}
