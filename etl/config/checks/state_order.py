"""Stateful steps, one after another: reports those that cannot go by the time of the results of the one in front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from etl.api import StatefulStep, Step
from etl.config.layout import Layout
from etl.config.model import OptionPath
from etl.config.options.variants import Built
from etl.config.problems import json_path
from etl.config.report import Report
from etl.steps.heartbeats import ARRIVAL
from etl.steps.window import END, START, Window
from etl.steps.windowing.emit import occasions

_BOTH = "give both steps the field of the event time: time: FIELD"


@dataclass(frozen=True)
class _Upstream:
    """The last stateful step in front."""

    stateful: OptionPath | None = None
    others: frozenset[str] = frozenset()
    """Fields of the last one that cannot be the event time after it."""
    by_reading: bool = False
    """Whether the last one goes by the time of reading, and gives events with times of their own."""


def check_state_order(layout: Layout, order: Sequence[str], built: Mapping[OptionPath, Built], report: Report) -> None:
    """Report each step whose event time is none behind a stateful step."""
    known: dict[str, _Upstream] = {}
    for name in order:
        stream = layout.streams[name]
        upstream = _join_inputs([known.get(ref.name, _Upstream()) for ref in stream.inputs])
        for part in stream.steps:
            made = built.get(part.path)
            if made is not None and isinstance(made.component, Step) and made.component.stateful:
                if upstream.stateful and made.whole and isinstance(made.component, StatefulStep):
                    _check_event_time(made.component, part.path, json_path(upstream.stateful), upstream, report)
                upstream = _Upstream(part.path, _not_in_time(made.component), made.whole and _is_by_reading(made.component))
        known[name] = upstream


def _not_in_time(step: Step) -> frozenset[str]:
    names = (END, *step.group_by, *step.aggregates) if isinstance(step, Window) else ()
    return frozenset(names)


def _is_by_reading(step: Step) -> bool:
    return isinstance(step, StatefulStep) and not isinstance(step, Window) and _time_of(step) == ARRIVAL


def _time_of(step: StatefulStep) -> str:
    return (step.event_time() or ("",))[0]


def _join_inputs(inputs: Sequence[_Upstream]) -> _Upstream:
    stateful = next((one.stateful for one in inputs if one.stateful), None)
    others = frozenset[str]().union(*(one.others for one in inputs))
    return _Upstream(stateful, others, any(one.by_reading for one in inputs))


def _check_event_time(step: StatefulStep, path: OptionPath, front: str, upstream: _Upstream, report: Report) -> None:
    """After a stateful step the event time is that of its results."""
    time = _time_of(step)
    if isinstance(step, Window) and "on_change" in occasions(step.emit):
        message = f"'emit: on_change' is not for a step after {front}, which keeps state, too"
        report.add((*path, "emit"), "state-order", message, "leave out emit: each result is given once, when it closes")
    elif time == ARRIVAL:
        message = f"after {front} there is no time of reading to go by"
        report.add(path, "state-order", message, f"go by the window's: time: {START}" if upstream.others else _BOTH)
    elif time in upstream.others:
        message = f"after {front} events are in time by {START!r} only, and not by {time!r}"
        report.add((*path, "time"), "state-order", message, f"time: {START}")
    elif upstream.by_reading and time != START:
        message = f"{front} goes by the time of reading, after which events are late by any other time"
        report.add(path, "state-order", message, _BOTH)
