"""Stateful steps, one after another: reports the orders in which Spark does not start them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from etl.api import SparkStep, Step
from etl.config.layout import Layout
from etl.config.model import OptionPath
from etl.config.options.variants import Built
from etl.config.problems import json_path
from etl.config.report import Report
from etl.steps.heartbeats import ARRIVAL
from etl.steps.window import END, START, Window

_ADVICE = "write the results to a sink, and read them in a pipeline of their own"


@dataclass(frozen=True)
class _Upstream:
    """The stateful steps in front: the last one, and the last after which Spark allows no other."""

    stateful: OptionPath | None = None
    ending: OptionPath | None = None
    others: frozenset[str] = frozenset()
    """Fields of the last one that cannot be the event time after it."""


def check_state_order(layout: Layout, order: Sequence[str], built: Mapping[OptionPath, Built], report: Report) -> None:
    """Report each stateful step where Spark does not allow one."""
    known: dict[str, _Upstream] = {}
    for name in order:
        stream = layout.streams[name]
        upstream = _join_inputs([known.get(ref.name, _Upstream()) for ref in stream.inputs])
        for part in stream.steps:
            made = built.get(part.path)
            if made is not None and isinstance(made.component, Step) and made.component.stateful:
                _check(made.component, part.path, upstream, report)
                ending = part.path if made.component.ends_state else upstream.ending
                upstream = _Upstream(part.path, ending, _not_in_time(made.component))
        known[name] = upstream


def _not_in_time(step: Step) -> frozenset[str]:
    names = (END, *step.group_by, *step.aggregates) if isinstance(step, Window) else ()
    return frozenset(names)


def _join_inputs(inputs: Sequence[_Upstream]) -> _Upstream:
    stateful = next((one.stateful for one in inputs if one.stateful), None)
    others = frozenset[str]().union(*(one.others for one in inputs))
    return _Upstream(stateful, next((one.ending for one in inputs if one.ending), None), others)


def _check(step: Step, path: OptionPath, upstream: _Upstream, report: Report) -> None:
    front = upstream.ending or (upstream.stateful if step.ends_state else None)
    if front:
        message = f"{step.type} keeps state, which Spark does not allow after {json_path(front)}"
        report.add((*path, "type"), "state-order", message, _ADVICE)
    elif upstream.stateful and isinstance(step, SparkStep):
        _check_clock(step, path, json_path(upstream.stateful), upstream.others, report)


def _check_clock(step: SparkStep, path: OptionPath, front: str, others: frozenset[str], report: Report) -> None:
    """After a stateful step the event time is that of its windows, when they close."""
    time = (step.event_time() or ("",))[0]
    if step.output_mode() == "update":
        message = f"'emit: on_change' is not for a step after {front}, which keeps state, too"
        report.add((*path, "emit"), "state-order", message, "leave out emit: each result is given once, when it closes")
    elif time == ARRIVAL:
        message = f"after {front} there is no time of reading to go by"
        report.add(path, "state-order", message, f"go by the window's: time: {START}")
    elif time in others:
        message = f"after {front} events are in time by {START!r} only, and not by {time!r}"
        report.add((*path, "time"), "state-order", message, f"time: {START}")
