"""Pipelines of the server → documents of the API."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from etl.config.model import Pipeline
from etl.config.problems import Problem
from etl.contract.state import NEVER
from etl.receipts import Counts
from etl.server import documents as api
from etl.server.job import Job
from etl.server.pipeline_server import PipelineServer
from etl.server.records import format_time
from etl.spark.reports.totals import MAX_LOGGED_NAMES, SinkTotals, SourceLag, Totals
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import read_json
from etl.state.reader import read_query_state


def status_of(server: PipelineServer, job: Job) -> api.StatusDocument:
    """A pipeline at a glance."""
    return api.StatusDocument(**_status(server, job))


def _status(server: PipelineServer, job: Job) -> dict[str, Any]:
    refusal = job.refusal
    return {
        "name": str(job.name),
        "status": job.status,
        "desired": job.desired,
        "version": job.running_version,
        "accepted_version": job.version.number if job.version else None,
        "error": job.error,
        "restarts": job.restarts,
        "refused": api.RefusalDocument(reason=refusal.reason, problems=problems_of(refusal.problems)) if refusal else None,
        "description": job.pipeline.description if job.pipeline else None,
        "rates": api.RatesDocument(**server.rates(job.name).current()),
        "counters": _counters(_totals(job)),
    }


def _totals(job: Job) -> Totals:
    return job.run.totals if job.run is not None else Totals()


def _counters(totals: Totals) -> api.CountersDocument:
    event_time = totals.event_time
    return api.CountersDocument(
        read=sum(counts.incoming for counts in list(totals.read.values())),
        delivered=sum(sink.accepted for sink in list(totals.sinks.values())),
        dead=totals.dead,
        bytes=totals.bytes,
        batches=totals.batches,
        lag_seconds=round(totals.lag_seconds, 3),
        **_backlog(totals),
        event_time=None if event_time is None else format_time(event_time / 1e6),
        delay_seconds=None if event_time is None else round(time.time() - event_time / 1e6, 1),
    )


def problems_of(problems: Sequence[Problem]) -> list[api.ProblemDocument]:
    """Problems of a file."""
    return [api.ProblemDocument.model_validate(problem.as_dict()) for problem in problems]


def pipeline_of(server: PipelineServer, job: Job) -> api.PipelineDocument:
    """A pipeline with its counters."""
    totals, pipeline = _totals(job), job.pipeline
    return api.PipelineDocument(
        **_status(server, job),
        language=job.version.file.language if job.version else None,
        sources=list(_sources(pipeline, totals)) if pipeline else [],
        steps=list(_steps(pipeline, totals)) if pipeline else [],
        sinks=list(_sinks(pipeline, totals)) if pipeline else [],
        rejected=[
            api.RejectedDocument(at=at, code=code, events=one.events, reason=one.reason, example=one.example)
            for (at, code), one in list(totals.rejected.items())
        ],
        notes=problems_of(job.notes),
    )


def _sources(pipeline: Pipeline, totals: Totals) -> Iterator[api.SourceDocument]:
    for name, source in pipeline.sources.items():
        counts = totals.read.get(name, Counts())
        dropped = dict(totals.dropped.get(name, {}))
        backlog = _backlog(totals, name)
        yield api.SourceDocument(name=name, type=source.type, read=counts.incoming, dead=counts.dead, dropped=dropped, **backlog)


def _backlog(totals: Totals, source: str | None = None) -> dict[str, Any]:
    """What waits at one source or at all: of several queries that read a source, the one behind counts."""
    found: dict[str, list[SourceLag]] = {}
    for (name, _), lag in list(totals.lags.items()):
        if source in (None, name):
            found.setdefault(name, []).append(lag)
    now = time.time()
    events = [max((lag.events for lag in lags if lag.events is not None), default=None) for lags in found.values()]
    sizes = [max((lag.bytes for lag in lags if lag.bytes is not None), default=None) for lags in found.values()]
    return {
        "backlog_events": _sum(events),
        "backlog_bytes": _sum(sizes),
        "backlog_seconds": max((lag.seconds(now) for lags in found.values() for lag in lags), default=None),
    }


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _steps(pipeline: Pipeline, totals: Totals) -> Iterator[api.StepDocument]:
    for stream in pipeline.streams.values():
        for index, step in enumerate(stream.steps):
            id_ = f"{stream.name}[{index}] {step.type}"
            counts = totals.steps.get(id_, Counts())
            measured = totals.measured.get(id_)
            location = pipeline.locations.get(("streams", stream.name, "steps", index))
            yield api.StepDocument(
                stream=stream.name,
                index=index,
                type=step.type,
                id=id_,
                line=location[0] if location else None,
                measured=measured.as_numbers(MAX_LOGGED_NAMES) if measured else {},
                **{name: getattr(counts, name) for name in ("incoming", "left", "filtered", "dead", "made")},
                seconds=round(counts.seconds, 3),
            )


def _sinks(pipeline: Pipeline, totals: Totals) -> Iterator[api.SinkDocument]:
    for name, output in pipeline.sinks.items():
        sink = totals.sinks.get(name, SinkTotals())
        yield api.SinkDocument(
            name=name,
            type=output.sink.type,
            delivered=sink.accepted,
            flushes=dict(sink.flushes),
            seconds=round(sink.seconds, 3),
            **{field: getattr(sink, field) for field in ("incoming", "made", "filtered", "dead", "spooled", "retries")},
        )


def state_of(folder: StateFolder) -> Iterator[api.StepStateDocument]:
    """What the steps on the state lane remember. Raises ComponentError for a damaged state."""
    known = read_json(folder.root / "plan.json") or {}
    for query, stored in known.items():
        found = read_query_state(folder.rows(query)) if folder.rows(query).is_dir() else None
        for stage, step in zip(stored.get("stages", ()), found.steps if found else (), strict=False):
            assert found is not None
            watermark = None if step.watermark == NEVER else format_time(step.watermark / 1e6)
            yield api.StepStateDocument(
                query=query, step=stage["step"], batch=found.batch, rows=step.rows, bytes=step.bytes, watermark=watermark
            )


def graph_of(job: Job) -> api.GraphDocument:
    """A pipeline as a graph, with the numbers of its nodes."""
    pipeline = job.pipeline
    if pipeline is None:
        return api.GraphDocument(nodes=[], edges=[])
    totals = _totals(job)
    edges = [(feed, f"stream:{stream.name}") for stream in pipeline.streams.values() for feed in stream.inputs]
    edges += [(feed, f"sink:{output.name}") for output in pipeline.sinks.values() for feed in output.inputs]
    return api.GraphDocument(
        nodes=list(_nodes(pipeline, totals)),
        edges=[api.EdgeDocument(origin=_node_id(pipeline, feed), target=target) for feed, target in edges],
    )


def _node_id(pipeline: Pipeline, name: str) -> str:
    return f"{'source' if name in pipeline.sources else 'stream'}:{name}"


def _nodes(pipeline: Pipeline, totals: Totals) -> Iterator[api.NodeDocument]:
    def node(
        kind: Any, name: str, type_: str | None, steps: list[str], events: int, dead: int, filtered: int
    ) -> api.NodeDocument:
        location = pipeline.locations.get((f"{kind}s", name))
        line = location[0] if location else None
        id_ = f"{kind}:{name}"
        return api.NodeDocument(
            id=id_, kind=kind, name=name, type=type_, steps=steps, line=line, events=events, dead=dead, filtered=filtered
        )

    for one in _sources(pipeline, totals):
        yield node("source", one.name, one.type, [], one.read - one.dead, one.dead, 0)
    steps = list(_steps(pipeline, totals))
    for name, stream in pipeline.streams.items():
        mine = [step for step in steps if step.stream == name]
        left = mine[-1].left if mine else 0
        yield node(
            "stream",
            name,
            None,
            [step.type for step in stream.steps],
            left,
            sum(step.dead for step in mine),
            sum(step.filtered for step in mine),
        )
    for sink in _sinks(pipeline, totals):
        yield node("sink", sink.name, sink.type, [], sink.delivered, sink.dead, sink.filtered)
