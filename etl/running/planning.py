"""From a pipeline and a request to a run that can start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from etl.api import NOTICE, EtlError, FrameSource, ReceivingSource, Sink, Source
from etl.catalogue import installed
from etl.config.model import Pipeline, Stream
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan as planned
from etl.spark import cluster
from etl.spark import session as spark
from etl.spark.mode import Mode
from etl.spark.run import PipelineRun
from etl.spark.state import StateFolder


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a caller asks of a run of one or several pipelines."""

    once: bool = False
    """Read what is there now, then end."""
    drain: bool = False
    """With ``once``: close all open windows at the end."""
    limit: int | None = None
    """End after so many events were read; None: no limit."""
    state: str | None = None
    """The state folder; None: the usual one."""
    master: str = "local[*]"
    """Spark's master."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's settings that differ from ours."""
    max_dead: float | None = None
    """The share of events that may become dead letters; more end the run."""
    log_level: int = NOTICE
    """Messages of components below this level are not reported."""


def planned_run(pipeline: Pipeline, request: RunRequest, master: str, several: bool = False) -> PipelineRun:
    """A pipeline with its plan, state and mode; of ``several`` in one run. Starts and writes nothing."""
    state = StateFolder.of(pipeline.name, request.state and _state_folder(pipeline.name, request.state, several))
    pipeline = replace(pipeline, sources={name: _placed(s, state, name) for name, s in pipeline.sources.items()})
    pipeline = replace(pipeline, streams={name: _with_tables(stream, state) for name, stream in pipeline.streams.items()})
    closes = any(isinstance(source, ReceivingSource) and source.closes for source in pipeline.sources.values())
    mode = Mode(
        request.once and not closes,  # what comes over a pipe is there when the pipe ends
        request.drain,
        request.limit,
        round(pipeline.run.trigger.total_seconds() * 1000),
        pipeline.run.max_batch_bytes,
        pipeline.run.parallelism or spark.cores(master),
    )
    plan = planned(pipeline, dead_letters(pipeline, state), SCHEMA)
    if not spark.is_local(master):
        cluster.check(plan, request.state)
    return PipelineRun(plan, state, mode)


def _state_folder(pipeline: str, chosen: str, several: bool) -> str:
    """``--state`` itself for one pipeline, a folder below it for each of several. Where an earlier command ran the pipeline
    with others, it keeps its folder. Raises EtlError where the folder holds the state of a pipeline that ran alone."""
    root = Path(chosen.removeprefix(cluster.SHARED))
    below = root / pipeline
    if StateFolder(root).has_run:
        if several:
            raise EtlError(
                f"state folder {root} holds the state of one pipeline, and of several each has a folder below it: choose "
                f"another folder with --state, or move its content to {root}/NAME, where NAME is that pipeline's name"
            )
        return str(root)
    return str(below if several or StateFolder(below).has_run else root)


def _placed(source: Source | FrameSource, state: StateFolder, name: str) -> Source | FrameSource:
    return source.placed(str(state.received(name))) if isinstance(source, ReceivingSource) else source


def _with_tables(stream: Stream, state: StateFolder) -> Stream:
    return replace(stream, steps=tuple(step.with_tables({}, str(state.tables)) for step in stream.steps))


def dead_letters(pipeline: Pipeline, state: StateFolder) -> Sink:
    """The pipeline's sink for rejected events, else a file in its state folder."""
    if pipeline.dead_letters is not None:
        return pipeline.dead_letters
    sink = installed().families["sink"]["file"].model_validate({"type": "file", "path": str(state.dead_letters)})
    assert isinstance(sink, Sink)
    return sink
