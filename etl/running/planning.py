"""Planning a run: from a pipeline and a request to a run that can start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from etl.api import NOTICE, FrameSource, PlanError, ReceivingSource, Source
from etl.config.model import Pipeline, Stream
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan as planned
from etl.plan.query_plan import Plan
from etl.running.otlp import OtlpSettings
from etl.running.state_folders import dead_letters, state_folder
from etl.spark.masters import cores, is_local
from etl.spark.run import PipelineRun, RunMode
from etl.spark.state.folder import MOUNTED, StateFolder


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Options of a run of one or several pipelines."""

    once: bool = False
    """Read the input that exists now, then end."""
    drain: bool = False
    """With ``once``: close all open windows at the end."""
    limit: int | None = None
    """End after this many events were read; None: no limit."""
    state: str | None = None
    """The state folder; None: the usual one."""
    master: str = "local[*]"
    """Spark's master."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's settings that differ from ours."""
    new_state: tuple[str, ...] = ()
    """Stateful steps that begin with empty state, and those that are gone, whose state is dropped."""
    max_dead: float | None = None
    """The share of events that may become dead letters; with a larger share the run ends."""
    listen: str | None = None
    """Where to answer `/metrics`, `/health` and `/ready` over HTTP: a port, or host:port."""
    otlp: OtlpSettings | None = None
    """Where to export metrics to; None for nowhere."""
    log_level: int = NOTICE
    """Messages of components below this level are not reported."""


def planned_run(
    pipeline: Pipeline, request: RunRequest, master: str, several: bool = False, state: StateFolder | None = None
) -> PipelineRun:
    """Plan a pipeline, and choose its state folder and mode. Starts and writes nothing.

    ``several``: it is one of several pipelines of the run. ``state``: the folder, where the request does not choose it. Raises
    PlanError.
    """
    state = state or state_folder(pipeline, request.state, several)
    pipeline = replace(pipeline, sources={name: _set_paths(s, state, name) for name, s in pipeline.sources.items()})
    pipeline = replace(pipeline, streams={name: _with_tables(stream, state) for name, stream in pipeline.streams.items()})
    closes = any(isinstance(source, ReceivingSource) and source.closes for source in pipeline.sources.values())
    mode = RunMode(
        once=request.once and not closes,  # a pipe's events are complete when the pipe is closed
        drain=request.drain,
        limit=request.limit,
        trigger_millis=round(pipeline.run.trigger.total_seconds() * 1000),
        max_batch_bytes=pipeline.run.max_batch_bytes,
        parallelism=pipeline.run.parallelism or cores(master),
        durable=pipeline.run.fsync,
        max_ahead_seconds=pipeline.run.max_ahead.total_seconds(),
        max_commit_seconds=pipeline.run.max_commit.total_seconds(),
    )
    plan = planned(pipeline, dead_letters(pipeline, state), SCHEMA)
    if not is_local(master):
        _check_cluster(plan, request.state)
    return PipelineRun(plan, state, mode, new_state=request.new_state)


def _set_paths(source: Source | FrameSource, state: StateFolder, name: str) -> Source | FrameSource:
    return source.with_folder(str(state.received(name))) if isinstance(source, Source) else source


def _with_tables(stream: Stream, state: StateFolder) -> Stream:
    return replace(stream, steps=tuple(step.with_tables({}, str(state.tables)) for step in stream.steps))


# ── Clusters ──────────────────────────────────────────────────────────────────────────────────────


def _check_cluster(plan: Plan, state: str | None) -> None:
    """Raises PlanError with everything that ties the pipeline to one host, because tasks run on other hosts than the driver."""
    found = [*_host_bound_sources(plan), *_host_bound_sinks(plan)]
    if not state or not state.startswith(MOUNTED):
        found.append(f"the state folder must be one that all hosts mount: --state {MOUNTED}/…")
    if found:
        raise PlanError(
            "this pipeline is tied to one host and cannot run on a cluster:" + "".join(f"\n  {line}" for line in found)
        )


def _host_bound_sources(plan: Plan) -> Iterator[str]:
    for name, source in plan.sources().items():
        if source.host_bound:
            yield (
                f"source {name!r} ({source.type}) reads what only one host has; run it with --master local[*] there, "
                "or hand its events over through Kafka or RocketMQ"
            )


def _host_bound_sinks(plan: Plan) -> Iterator[str]:
    for query in plan.queries:
        for name, output in query.segment.outputs.items():
            path = output.sink.host_path()
            if path is not None:
                yield (
                    f"sink {name!r} writes to {path} of whichever host runs the task; "
                    f"use s3://, hdfs://, or {MOUNTED}{path} if all hosts mount it there"
                )
