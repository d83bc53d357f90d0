"""The clocks of stages: what advances the watermark of each, and the longest time that events wait in it.

A stage goes by the time of reading, by what the upstream stages guarantee, or by a field of their results
(`StageInput.by_field`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from etl.api import SideStep, StatefulStep
from etl.plan.frames import Stage, StageInput, StateGraph
from etl.plan.segments import Watermark
from etl.steps.heartbeats import ARRIVAL
from etl.steps.window import END, START, Window

_MARGIN = 1.0
"""Seconds from the end of what waits until it is over by the clock."""


def step_of(stage: Stage) -> StatefulStep:
    """The step of a stage."""
    assert isinstance(stage.node.step, StatefulStep)
    return stage.node.step


def _time_of(step: StatefulStep) -> str:
    return (step.event_time() or ("",))[0]


def with_clocks(graph: StateGraph) -> tuple[StageInput, ...]:
    """The inputs, each with whether its watermark comes from a field of what arrives."""
    found: dict[int, bool] = {}
    for number in range(len(graph.stages)):
        step = step_of(graph.stages[number])
        for at, one in enumerate(graph.inputs):
            if one.stage == number:
                found[at] = _time_of(step) != ARRIVAL and any(
                    _changes_times(graph, found, earlier, _time_of_input(graph, one)) for earlier in one.stages
                )
    return tuple(replace(one, by_field=found[at]) for at, one in enumerate(graph.inputs))


def _time_of_input(graph: StateGraph, one: StageInput) -> str:
    """The field with the event time of an input; that of its side, for a join."""
    upstream = [branch for earlier in one.stages for branch in graph.stages[earlier].downstream.walk() if branch.emits]
    for branch in upstream:
        side = branch.steps[-1].step if branch.steps else None
        if isinstance(side, SideStep) and graph.inputs[branch.to] == one and getattr(side, "times", None):
            return str(side.times[one.side])  # type: ignore[attr-defined]
    return _time_of(step_of(graph.stages[one.stage]))


def _changes_times(graph: StateGraph, found: dict[int, bool], earlier: int, time: str) -> bool:
    """Whether a stage guarantees nothing about a time of its results."""
    step = step_of(graph.stages[earlier])
    by_reading = _time_of(step) == ARRIVAL
    if isinstance(step, Window):
        return time not in (START, END) if by_reading else time in (*step.group_by, *step.aggregates)
    by_field = any(found[at] for at, one in enumerate(graph.inputs) if one.stage == earlier)
    return by_reading or (by_field and time != _time_of(step))


def follows_upstream(one: StageInput, stage: Stage) -> bool:
    """Whether the watermark of an input is what the upstream stages guarantee."""
    return bool(one.stages) and not one.by_field and not stage.watermark.arrival


def delay_through(earlier: StatefulStep, stage: Stage) -> float:
    """The longest time from an event that the upstream stage reads to the results of the downstream one; seconds."""
    ends = isinstance(earlier, Window) and stage.watermark.field != START
    return stage.watermark.max_delay_seconds + (earlier.max_delay().total_seconds() if ends else 0)


def joint_watermark(graph: StateGraph) -> Watermark:
    """The watermark of what reads events for all stages: the longest times of those that go by events that are read."""
    stages = graph.stages
    read = [stages[one.stage].watermark for one in graph.inputs if not one.stages or one.sources]
    timed = [stages[one.stage].watermark for one in graph.inputs if not one.stages or one.sources or one.by_field]
    idle = [one.idle_seconds for one in timed if one.idle_seconds and not one.arrival]
    return replace(
        read[0],
        idle_seconds=min(idle, default=None),
        late_seconds=max(one.late_seconds for one in read),
        max_delay_seconds=max(one.max_delay_seconds for one in read),
        intervals=tuple(_intervals(graph).items()),
    )


def _intervals(graph: StateGraph) -> dict[int, bool]:
    """The intervals of results of all stages, in microseconds; true for those that a silence repeats. Those after which the clock
    closes what waits count as well."""
    found: dict[int, bool] = {}
    for stage in graph.stages:
        for every, repeats in step_of(stage).intervals().items():
            micros = every // timedelta(microseconds=1)
            found[micros] = repeats or found.get(micros, False)
    for seconds in _waits(graph).values():
        found.setdefault(round(seconds * 1e6), False)
    return found


def _waits(graph: StateGraph) -> dict[int, float]:
    """The longest time that events wait by the clock until they have left a stage, in seconds; without stages in which none
    waits, and those that only events advance."""
    found: dict[int, float] = {}
    for number, stage in enumerate(graph.stages):
        upstream = [earlier for one in graph.inputs if one.stage == number for earlier in one.stages]
        before = max((found[earlier] for earlier in upstream if earlier in found), default=None)
        if stage.watermark.arrival:
            found |= {} if (wait := _wait_by_reading(graph, stage, upstream, before)) is None else {number: wait}
        elif before is not None and any(follows_upstream(one, stage) for one in graph.inputs if one.stage == number):
            found[number] = before + step_of(stage).max_delay().total_seconds() + _MARGIN
    return found


def _wait_by_reading(graph: StateGraph, stage: Stage, upstream: list[int], before: float | None) -> float | None:
    """The same of a stage that goes by the time of reading; ``before`` is that of the upstream stages."""
    own = stage.watermark.idle_seconds
    if own is None:
        return before
    silences = [graph.stages[earlier].watermark.idle_seconds or 0.0 for earlier in upstream]
    return own + (max(silences, default=0.0) if before is None else before)
