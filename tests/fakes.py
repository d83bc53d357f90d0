"""Components without behaviour, for tests of the planner."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pyarrow as pa

from etl.api import TIMESTAMP, ArrowStep, FrameSource, Schema, Sink, Source, SparkStep, with_fields
from etl.config.model import Output, Pipeline, Stream
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan
from etl.plan.query_plan import Plan


class Lines(Source):
    """A source of lines."""

    type: str = "lines"
    extra: tuple[str, ...] = ()

    def fields(self) -> Schema:
        return pa.schema([("message", pa.string()), *((name, pa.string()) for name in self.extra)])


class Frames(FrameSource):
    """A source that Spark reads."""

    type: str = "frames"
    streams: bool = True

    def fields(self) -> Schema:
        return pa.schema([("message", pa.string())])

    @property
    def streaming(self) -> bool:
        return self.streams


class Row(ArrowStep):
    """A row-wise step."""

    type: str = "row"
    adds: str | None = None

    def fields(self, incoming: Schema) -> Schema:
        return with_fields(incoming, {self.adds: TIMESTAMP}) if self.adds else incoming


class Both(ArrowStep, SparkStep):
    """A row-wise step without an Arrow form."""

    type: str = "both"
    adds: str | None = None

    def fields(self, incoming: Schema) -> Schema:
        return with_fields(incoming, {self.adds: TIMESTAMP}) if self.adds else incoming

    def spark_reason(self, incoming: Schema) -> str | None:
        return "soundex has no Arrow form"


class Count(SparkStep):
    """A stateful step."""

    type: str = "count"
    size: int = 60
    having: str = ""
    stateful = True

    def fields(self, incoming: Schema) -> Schema:
        return pa.schema([("n", pa.int64())])

    def needs(self, incoming: Schema) -> frozenset[str]:
        return frozenset({"t"})

    def event_time(self) -> tuple[str, timedelta]:
        return "t", timedelta(seconds=5)

    def max_delay(self) -> timedelta:
        return timedelta(seconds=60)


def make_plan(
    sources: Mapping[str, Source | FrameSource], streams: Mapping[str, tuple[str, list]], sinks: Mapping[str, str]
) -> Plan:
    pipeline = Pipeline(
        "p",
        sources,
        {name: Stream(name, tuple(inputs.split()), tuple(steps)) for name, (inputs, steps) in streams.items()},
        {name: Output(name, tuple(inputs.split()), Sink(type="fake")) for name, inputs in sinks.items()},
    )
    return plan(pipeline, Sink(type="fake"), SCHEMA)
