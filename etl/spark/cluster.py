"""What a pipeline may not do on a cluster, where tasks run on other hosts than the driver."""

from __future__ import annotations

from collections.abc import Iterator

from etl.api import PlanError
from etl.plan.model import Plan

SHARED = "file://"
"""A path written as a ``file://`` URI says that every host mounts it at that place."""


def check(plan: Plan, state: str | None) -> None:
    """Raises PlanError with everything that ties the pipeline to one host."""
    found = [*_sources(plan), *_sinks(plan), *_state(state)]
    if found:
        raise PlanError(
            "this pipeline is tied to one host and cannot run on a cluster:" + "".join(f"\n  {line}" for line in found)
        )


def _sources(plan: Plan) -> Iterator[str]:
    for name, source in plan.sources().items():
        if source.host_bound:
            yield (
                f"source {name!r} ({source.type}) reads what only one host has; run it with --master local[*] there, "
                "or hand its events over through Kafka or RocketMQ"
            )


def _sinks(plan: Plan) -> Iterator[str]:
    for query in plan.queries:
        for name, output in query.segment.outputs.items():
            path = output.sink.host_path()
            if path is not None:
                yield (
                    f"sink {name!r} writes to {path} of whichever host runs the task; "
                    f"use s3://, hdfs://, or {SHARED}{path} if all hosts mount it there"
                )


def _state(state: str | None) -> Iterator[str]:
    if not state or not state.startswith(SHARED):
        yield f"the state folder must be one that all hosts mount: --state {SHARED}/…"
