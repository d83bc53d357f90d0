"""The part of `correlate` with state: the events of each correlation in each group, and the alerts."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import FieldName, Operator, Schema, StatefulStep
from etl.rules.correlation.compiled_correlations import CompiledCorrelations
from etl.steps.detection.correlate import Correlate


class CorrelateGroups(StatefulStep):
    """Keep each correlation's events of each group, and give its alerts."""

    type: Literal["correlate"] = "correlate"
    time: FieldName
    late: timedelta
    idle: timedelta | None = None
    of: Correlate = Field(exclude=True)
    longest: timedelta = Field(exclude=True)
    """The sum of the timespans of the longest chain of correlations."""
    to: pa.Schema = Field(exclude=True)
    incoming: pa.Schema = Field(exclude=True)
    """The incoming fields of the whole step."""

    def fields(self, incoming: Schema) -> Schema:
        """Alerts."""
        return self.to

    def event_time(self) -> tuple[str, timedelta]:
        """As the options say."""
        return self.time, self.late

    def idle_after(self) -> timedelta | None:
        """As the option says."""
        return self.idle

    def max_delay(self) -> timedelta:
        """The timespans of the longest chain."""
        return self.longest

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """The time, and the version of the rows; rules may change, and state of those that do not is kept."""
        return {"time": self.time, "version of its rows": 2}

    def operator(self, incoming: Schema) -> Operator:
        """The correlations, which are read when they first run: the driver needs none of them."""
        from etl.rules.correlation.operator import CorrelatedGroups

        longest = self.longest // timedelta(microseconds=1)
        return CorrelatedGroups(partial(_compile, self), self.to, self.time, longest)


def _compile(step: CorrelateGroups) -> CompiledCorrelations:
    return step.of.correlating(step.incoming, frozenset(step.to.names))
