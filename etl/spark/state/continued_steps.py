"""The stateful steps of a changed query, and the steps of its last run whose state they continue."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from etl.api import NEVER, OPTIONAL, PENDING, ComponentError, nearest
from etl.options import format_duration
from etl.plan.frames import stages
from etl.plan.query_plan import Plan
from etl.plan.segments import StepNode
from etl.spark.state.checkpoint import committed_batch
from etl.spark.state.folder import StateFolder
from etl.state.manifest import Manifest, Manifests, StageState

REMOVED = "removed "
"""Prefix of what a step no longer remembers: its state may still hold it, so that only the same can be added again."""

_TIMEDELTA = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d)(?:\.(\d{6}))?")
"""A duration as Python writes it, which steps remember."""

Remembered = dict[str, Any]
"""What the state of a step depends on."""


def names_of(query: str, node: StepNode) -> set[str]:
    """What a user can call a stateful step, if no other step is called that."""
    path, _, type_ = node.id.rpartition(" ")
    return {f"{query}/{node.id}", node.id, path, path.partition("[")[0], type_, query}


def removed_step_name(query: str, old: Sequence[Remembered], number: int) -> str:
    """What a user calls a step of the last run that is gone."""
    return f"{query}/{old[number]['step']} {number + 1}"


def find_step(plan: Plan, requested: str, known: Mapping[str, Sequence[Remembered]]) -> tuple[str, int, bool]:
    """The query of a step, its number among the query's stateful steps, and whether it is gone: ``known`` are the steps of the
    last run, by query. Raises ComponentError unless one step is called that.
    """
    steps = [(query.name, number, stage.node) for query in plan.queries for number, stage in enumerate(stages(query.frame))]
    found = [(query, number, False) for query, number, node in steps if requested in names_of(query, node)]
    old = [(query.name, number) for query in plan.queries for number in range(len(known.get(query.name, ())))]
    gone = {(query, number): removed_step_name(query, known[query], number) for query, number in old}
    if not found:
        texts = {key: {name, name.rpartition("/")[2], known[key[0]][key[1]]["step"]} for key, name in gone.items()}
        found = [(*key, True) for key, names in texts.items() if requested in names]
    if len(found) == 1:
        return found[0]
    present = [f"{query}/{node.id}" for query, _, node in steps]
    text = ", ".join(map(repr, present or gone.values())) or "none"
    if found:
        several = text if not found[0][2] else ", ".join(repr(gone[query, number]) for query, number, _ in found)
        raise ComponentError(f"--new-state: several steps are called {requested!r}; steps with state are {several}")
    near = nearest(requested, sorted({name for query, _, node in steps for name in names_of(query, node)}))
    raise ComponentError(f"--new-state: no step with state is called {requested!r}; {near or f'steps with state are {text}'}")


@dataclass(frozen=True)
class DiscardedState:
    """Stateful steps of a query whose state a run discards, by their numbers."""

    emptied: Collection[int] = ()
    """Steps that begin with empty state."""
    removed: Collection[int] = ()
    """Steps of the last run that are gone."""


NO_DISCARD = DiscardedState()


def match_steps(old: Sequence[Remembered], new: Sequence[Remembered], discarded: DiscardedState = NO_DISCARD) -> list[int | None]:
    """The number of the step whose state each of the new ones continues; None for those that begin with empty state.

    Where their number differs, a step continues the next one that remembers the same.
    """
    rest = [at for at in range(len(old)) if at not in discarded.removed]
    if len(rest) == len(new):
        return [None if number in discarded.emptied else at for number, at in enumerate(rest)]
    found: list[int | None] = []
    for number, after in enumerate(new):
        equal = (at for at in rest if not any(differences(old[at], after)))
        match = None if number in discarded.emptied else next(equal, None)
        rest = rest if match is None else rest[rest.index(match) + 1 :]
        found.append(match)
    return found


def orphaned_steps(old: Sequence[Remembered], new: Sequence[Remembered], discarded: DiscardedState) -> list[int]:
    """The steps of the last run whose state nothing continues, and that nobody has named."""
    if len(old) - len(discarded.removed) == len(new):
        return []
    used = {*discarded.removed, *match_steps(old, new, discarded)}
    return [at for at in range(len(old)) if at not in used]


def misfits(old: Sequence[Remembered], new: Sequence[Remembered], discarded: DiscardedState) -> dict[int, list[str]]:
    """What does not fit the state of the last run, by the number of the step: what has changed of it, nothing for a further step.
    Steps that begin with empty state need none."""
    matches = match_steps(old, new, discarded)
    if len(old) - len(discarded.removed) != len(new):
        return {at: [] for at, before in enumerate(matches) if before is None and at not in discarded.emptied}
    changes = {at: list(differences(old[before], new[at])) for at, before in enumerate(matches) if before is not None}
    return {at: texts for at, texts in changes.items() if texts}


def differences(before: Remembered, after: Remembered) -> Iterator[str]:
    """What has changed of what a step remembers, so that it cannot use its state."""
    before = {name.removeprefix(REMOVED): value for name, value in before.items()}
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name) or _may_differ(name, before, after):
            continue
        if name.startswith(PENDING):
            was, now = before[name], after[name] or "at once"
            loss = "those that wait would be lost or given twice"
            yield f"{name.removeprefix(PENDING)} were given {was} and are given {now} now: {loss}"
        else:
            yield change_of(name, before.get(name), after.get(name))


def change_of(name: str, before: Any, after: Any) -> str:
    """What has changed, in the notation of the pipeline file."""
    if before is None:
        return f"there was no {name}, and it is {_shown(after)} now"
    return f"{name} was {_shown(before)} and is {'gone' if after is None else _shown(after)} now"


def _shown(value: Any) -> str:
    found = _TIMEDELTA.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return repr(value)
    days, hours, minutes, seconds, micros = (int(number or 0) for number in found.groups())
    return repr(format_duration(timedelta(days, seconds, micros, 0, minutes, hours)))


def _may_differ(name: str, before: Remembered, after: Remembered) -> bool:
    """Whether a step keeps its state although this of it has changed."""
    if name not in before or name not in after:
        return name.startswith((OPTIONAL, PENDING))
    return name.startswith(PENDING) and before[name] is None


def write_step_changes(state: StateFolder, query: str, change: Mapping[str, Any]) -> None:
    """Make the state with which the next micro-batch starts that of other steps, once: each has the state of one before, or none.

    ``change``: ``id``; ``steps``, what `match_steps` gives; and ``other_time``, whether the event time is another field, and
    starts from the beginning. A step in the place of another keeps its watermark. A query that had no such step when it ran last
    has no manifest of its last micro-batch.
    """
    manifests, batch = Manifests(state.rows(query)), committed_batch(state, query)
    steps, is_first = change["steps"], change.get("is_first", False)
    known = Manifest() if is_first and batch not in manifests.versions() else manifests.read(batch)
    if known.change == change["id"]:
        return
    if is_first:
        _begin_state(state, query, manifests, batch, Manifest(stages=(StageState(),) * len(steps), change=change["id"]))
        return
    watermarks = [stage.watermark for stage in known.stages] if len(steps) == len(known.stages) else [NEVER] * len(steps)
    stages = [
        StageState(watermark) if number is None else known.stage(number)
        for number, watermark in zip(steps, watermarks, strict=True)
    ]
    if change["other_time"]:
        known, stages[0] = replace(known, event_time=NEVER, event_times={}), StageState()
        (state.query(query) / "clock.json").unlink(missing_ok=True)
    if len(steps) != len(known.stages) or any(number not in (None, at) for at, number in enumerate(steps)):
        known = replace(known, event_times={})  # inputs are named by the numbers of their steps
    manifests.change(batch, replace(known, stages=tuple(stages), change=change["id"]))


def _begin_state(state: StateFolder, query: str, manifests: Manifests, batch: int, first: Manifest) -> None:
    """Give a query without state its first one. Event times begin with the next micro-batch, and nothing is left of manifests of
    steps that the query had long before."""
    (state.query(query) / "clock.json").unlink(missing_ok=True)
    manifests.change(batch, first)
    manifests.remove_before(batch)
