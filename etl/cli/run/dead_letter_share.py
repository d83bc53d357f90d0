"""``--max-dead``, and the warning at the end of a run with many dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click

from etl.plan.frames import segments
from etl.plan.query_plan import Plan
from etl.plan.segments import StepNode
from etl.running.dead_letter_share import LONGEST_LINE, WARNING_SHARE, DeadLetterShare, one_line
from etl.running.messages import count
from etl.segment.kernel_warmup import step_nodes
from etl.spark.run import PipelineRun

MAX_REASONS = 3
"""Maximum number of reasons in the warning."""

MAX_PATTERNS = 3
"""Maximum number of patterns of a step for which the warning shows where they stop matching."""


class ShareType(click.ParamType[float]):
    """``0.1`` or ``10%``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """A number from 0 to 1."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is not a share of events: write a number from 0 to 1, or a percentage such as 10%", param, ctx)
        return share


def summarize_dead_letters(watch: DeadLetterShare, run: PipelineRun) -> Iterator[str]:
    """Lines for a run of which a tenth of the events or more became dead letters; none for other runs."""
    if not run.totals.dead or (watch.share < WARNING_SHARE and not watch.exceeded):
        return
    yield f"{watch.description}:"
    reasons = sorted(run.totals.rejected.items(), key=lambda item: -item[1].events)
    for (at, code), rejected in reasons[:MAX_REASONS]:
        yield f"  {count(rejected.events)} at {at}{_line_suffix(run.plan, at)}: {one_line(rejected.reason)} ({code}), such as"
        yield f"    {one_line(rejected.example)}"
        yield from _match_stops(run.plan, at, rejected.example)
    if len(reasons) > MAX_REASONS:
        yield f"  {count(len(reasons) - MAX_REASONS)} further reasons"


def _node(plan: Plan, at: str) -> StepNode | None:
    parts = [part for query in plan.queries for part in (query.segment, *(part for part, _ in segments(query.frame)))]
    return next((node for part in parts for node in step_nodes(part) if node.id == at), None)


def _line_suffix(plan: Plan, at: str) -> str:
    node = _node(plan, at)
    return f" (line {node.location[0]})" if node is not None and node.location else ""


def _match_stops(plan: Plan, at: str, example: str) -> Iterator[str]:
    """Where the patterns of a step stop matching the example."""
    node = _node(plan, at)
    patterns = getattr(node.step, "patterns", None) if node else None
    if node is None or not isinstance(patterns, list):
        return
    with suppress(Exception):  # only a hint: an error leaves it out
        text = _parsed_text(example, getattr(node.step, "field", "message"))
        found = [(stop.column, stop) for pattern in patterns[:MAX_PATTERNS] for stop in _grok(node, pattern).stops([text])]
        column, stop = max(found, key=lambda one: one[0])
        beginning = f"`{stop.prefix[-LONGEST_LINE:]}`" if stop.prefix else "nothing of the pattern"
        yield f"    matches {beginning} and then not {stop.expected} at column {column}: `etl grok` shows more"


def _grok(node: StepNode, pattern: str) -> Any:
    from etl.inference.match_stops import Grok

    names = ("pattern_set", "pattern_definitions", "pattern_files")
    return Grok(pattern, {name: getattr(node.step, name) for name in names if hasattr(node.step, name)})


def _parsed_text(example: str, field: str) -> str:
    """The text that the step has parsed: the example is this text, or the whole event as JSON."""
    with suppress(ValueError):
        event: Any = json.loads(example)
        if isinstance(event, dict):
            for name in field.split("."):
                event = event[name]
            return str(event)
    return example
