"""The contract of steps that join two streams: the two sides as one stream of rows.

Each row has the fields of one side, and which side that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from etl.contract.changelogs import change_key, is_changing, with_changes
from etl.contract.errors import Finding
from etl.contract.state import StatefulStep
from etl.contract.steps import ArrowStep
from etl.events import Schema, visible
from etl.types import TIMESTAMP

SIDE = "side of join"
"""Field (int8) of rows before a join: 0 for the left side and 1 for the right one. No event has such a field."""

SIDE_TIME = "time of event"
"""Field of these rows with the event time of their side."""

LEFT, RIGHT = "left.", "right."
"""Prefixes of the fields of each side in these rows."""

SIDE_PREFIXES = (LEFT, RIGHT)


def united_fields(left: Schema, right: Schema, timed: bool) -> Schema:
    """The fields of the rows of both sides; ``timed``: with an event time."""
    fields = {SIDE: pa.int8()} | ({SIDE_TIME: TIMESTAMP} if timed else {})
    for prefix, side in zip(SIDE_PREFIXES, (left, right), strict=True):
        fields |= {prefix + field.name: field.type for field in visible(side)}
    return with_united_changes(pa.schema(list(fields.items())), left, right)


def with_united_changes(united: Schema, left: Schema, right: Schema) -> Schema:
    """The fields of the rows of both sides with the kind of change, if a side is a changelog. The key has the fields of the keys
    of both, or there is none if a side has none."""
    if not (is_changing(left) or is_changing(right)):
        return united
    keys = change_key(left), change_key(right)
    if keys[0] is None or keys[1] is None:
        return with_changes(united, None)
    return with_changes(united, [*(LEFT + name for name in keys[0]), *(RIGHT + name for name in keys[1])])


def side_keys(united: Schema) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The keys of the left and of the right side; None unless both are changelogs with a key."""
    key = change_key(united)
    if key is None:
        return None
    return (
        tuple(name.removeprefix(LEFT) for name in key if name.startswith(LEFT)),
        tuple(name.removeprefix(RIGHT) for name in key if name.startswith(RIGHT)),
    )


def side_fields(united: Schema) -> tuple[Schema, Schema]:
    """The fields of the left and of the right side."""
    return _without_prefix(united, LEFT), _without_prefix(united, RIGHT)


def _without_prefix(united: Schema, prefix: str) -> Schema:
    return pa.schema([field.with_name(field.name.removeprefix(prefix)) for field in united if field.name.startswith(prefix)])


class SideStep(ArrowStep):
    """The step before a join that makes such rows of events."""

    sides: tuple[int, ...]
    """The sides that its events are on; both if a stream is joined with itself."""


class JoiningStep(StatefulStep):
    """A stateful step that tells the inputs of its stream apart: as the first step of a stream it gets them as its two sides, and
    not as their union by field name."""

    def check_inputs(self, inputs: Mapping[str, Schema]) -> Iterable[Finding]:
        """Find problems of the stream's inputs: too few or too many, a side that is not an input."""
        return ()

    def united(self, inputs: Mapping[str, Schema]) -> Schema:
        """The fields of the rows that reach this step, from inputs with these fields. Never raises."""
        raise NotImplementedError

    def side_rows(self, name: str, inputs: Mapping[str, Schema]) -> SideStep:
        """The step that makes such rows of the events of one input."""
        raise NotImplementedError
