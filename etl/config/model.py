"""A pipeline as data: what a valid file says, with typed components and the location of everything in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from etl.api import Duration, FrameSource, LookupTable, Sink, Size, Source, Step
from etl.udf.declaration import Functions

if TYPE_CHECKING:
    from etl.config.cases.case import Case

OptionPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead to a value, in the long form: ``("streams", "parsed", "steps", 0)``."""

YamlLocation: TypeAlias = tuple[int, int]
"""Line and column, counted from one."""


class RunOptions(BaseModel):
    """How a pipeline runs, whatever it does."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    trigger: Duration = Field(
        default=timedelta(milliseconds=500), description="How often a following run looks for new events.", examples=["500ms"]
    )
    max_batch_bytes: Size = Field(
        default=4 * 2**30,
        ge=1,
        description="Maximum bytes of one micro-batch; from a backlog it reads what it processes in about four seconds.",
        examples=["64MiB"],
        json_schema_extra={"default": "4GiB"},
    )
    max_ahead: Duration = Field(
        default=timedelta(days=1),
        description="How far the time of an event may be ahead of the time of reading, where a step goes by event time; events "
        "that are further ahead are dead letters.",
        examples=["1d"],
    )
    max_commit: Duration = Field(
        default=timedelta(minutes=30),
        description="How long one call of a sink in the driver may take, such as the commit of a micro-batch, or of a source "
        "that plans one, or the reading of a look-up table; then it is interrupted, and the pipeline fails. A call that takes a "
        "minute is reported with the location of its code.",
        examples=["30m"],
    )
    fsync: bool = Field(
        default=True,
        description="Wait until the disk has what stateful steps remember, which then survives a power failure; without, it "
        "survives the end of any process.",
    )
    parallelism: int | None = Field(
        default=None, ge=1, description="Splits worked on at the same time; none means one for each core."
    )


@dataclass(frozen=True)
class Stream:
    """Steps, and the sources and streams whose events they process; several inputs are a union by field name."""

    name: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    first_step: int = 0
    """The number of its first step in the file: not zero where a replay begins in the middle of a stream."""


@dataclass(frozen=True)
class Output:
    """A sink and the streams it delivers."""

    name: str
    inputs: tuple[str, ...]
    sink: Sink


@dataclass(frozen=True)
class Pipeline:
    """A whole file. ``streams`` are in an order in which each comes after its inputs."""

    name: str
    sources: Mapping[str, Source | FrameSource]
    streams: Mapping[str, Stream]
    sinks: Mapping[str, Output]
    dead_letters: Sink | None = None
    run: RunOptions = field(default_factory=RunOptions)
    description: str | None = None
    locations: Mapping[OptionPath, YamlLocation] = field(default_factory=dict, compare=False, repr=False)
    """The location of each key, short forms under their long paths; of a list item, the location of its value."""
    file: str = ""
    tests: tuple[Case, ...] = ()
    tables: Mapping[str, LookupTable] = field(default_factory=dict)
    """Tables for look-ups; the steps that name them hold them already."""
    functions: Functions = field(default_factory=dict)
    """Functions of the user; the expressions that call them hold them already."""
