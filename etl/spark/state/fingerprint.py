"""Checks before a run whether a changed pipeline file still fits the checkpoints of the last run.

Spark accepts a changed aggregate or window on an old checkpoint and gives wrong results: here that is an error. A query keeps
its checkpoint under the name it had first, also when it has gained or lost sources since.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from etl.api import OPTIONAL, ComponentError, SparkStep, StatefulStep, format_type
from etl.plan.frames import Read, SparkRead, frame_sources, spark_nodes, stages
from etl.plan.query_plan import Plan, QueryPlan
from etl.spark.state.continued_steps import (
    NO_DISCARD,
    REMOVED,
    DiscardedState,
    differences,
    find_step,
    match_steps,
    removed_step_name,
    write_step_changes,
)
from etl.spark.state.folder import StateFolder
from etl.spark.state.incompatible_changes import Fingerprint, IncompatibleChange, changes_of, has_offsets_only, refusal
from etl.spark.state.json_files import read_json, write_json
from etl.state.manifest import Manifests
from etl.udf.attaching import called_functions

_LAST_STEP = re.compile(r"-[a-z0-9_]+(-\d+)?$")
"""What follows the stream in the name of a query: the type of its last stateful step, and a number if it has several."""

_STATELESS_OPTIONS = {"having", "idle"}
"""Options of stateful steps that do not affect their state."""


StepsByQuery: TypeAlias = Mapping[str, DiscardedState]
"""Query → its stateful steps whose state a run discards."""

CHANGE = "change"
"""What a fingerprint has until the state of its query is that of its steps: see `write_step_changes`."""


def match_checkpoints(plan: Plan, state: StateFolder, new_state: Sequence[str] = ()) -> tuple[Plan, list[str]]:
    """Give the plan's queries the names of their checkpoints, and store their fingerprints. Also returns notes for the user.

    Steps that ``new_state`` names begin with empty state, or are gone and so is their state. Raises ComponentError that lists the
    changes and what can be done.
    """
    known = _make_changes(state, _read_fingerprints(state))
    discarded = _discarded_steps(plan, state, known, new_state)
    queries, changes = _compare(plan, state, known, discarded)
    if changes:
        raise ComponentError(refusal(changes, state))
    prints = {query.name: _with_removed(_match_remembered(known, query, discarded), fingerprint(query)) for query in queries}
    for query in queries:
        if query.name in known and query.name in discarded:
            prints[query.name][CHANGE] = _change_of_state(query, known[query.name].get("stages", []), discarded[query.name])
    write_json(_path(state), {**known, **prints})
    _make_changes(state, {**known, **prints})
    return replace(plan, queries=queries), [*_notes(known, queries, discarded), *_discard_notes(known, queries, discarded)]


def _make_changes(state: StateFolder, known: Mapping[str, Fingerprint]) -> dict[str, Fingerprint]:
    """Change the state of queries whose steps were changed, also after a kill in between; returns the fingerprints afterwards."""
    changed = {query: one[CHANGE] for query, one in known.items() if CHANGE in one}
    done = {query: {name: value for name, value in one.items() if name != CHANGE} for query, one in known.items()}
    for query, change in changed.items():
        write_step_changes(state, query, change)
    if changed:
        write_json(_path(state), done)
    return done


def _discarded_steps(plan: Plan, state: StateFolder, known: Mapping[str, Fingerprint], names: Sequence[str]) -> StepsByQuery:
    """The steps of these names. Raises ComponentError for a name that is not that of one step."""
    assigned = replace(plan, queries=_assign_names(plan, state, known)[0])
    old = {query: one.get("stages", []) for query, one in known.items()}
    found = [find_step(assigned, name, old) for name in names]
    return {
        query: DiscardedState(
            *({number for at, number, is_gone in found if (at, is_gone) == (query, gone)} for gone in (False, True))
        )
        for query, _, _ in found
    }


def _change_of_state(query: QueryPlan, old: list[Fingerprint], discarded: DiscardedState) -> dict[str, Any]:
    """The change of a query's state, for `write_step_changes`."""
    new = fingerprint(query).get("stages", [])
    other_time = bool(old) and 0 in discarded.emptied and old[0].get("time") != new[0].get("time")
    return {"id": uuid.uuid4().hex, "steps": match_steps(old, new, discarded), "other_time": other_time, "is_first": not old}


def _match_remembered(known: Mapping[str, Fingerprint], query: QueryPlan, discarded: StepsByQuery) -> list[Fingerprint]:
    """Of each stateful step of a query, what the step whose state it continues remembered; nothing for others."""
    old, new = known.get(query.name, {}).get("stages", []), fingerprint(query).get("stages", [])
    return [{} if number is None else old[number] for number in match_steps(old, new, discarded.get(query.name, NO_DISCARD))]


def compare_checkpoints(plan: Plan, state: StateFolder) -> tuple[Plan, list[IncompatibleChange]]:
    """Give the plan's queries the names of their checkpoints. Also returns what has changed since the last run and does not fit
    them. Writes nothing."""
    queries, changes = _compare(plan, state, _read_fingerprints(state), {})
    return replace(plan, queries=queries), changes


def _path(state: StateFolder) -> Path:
    return state.root / "plan.json"


def _read_fingerprints(state: StateFolder) -> dict[str, Fingerprint]:
    """The fingerprints of the last run."""
    return read_json(_path(state), _is_valid) or {}


def _compare(
    plan: Plan, state: StateFolder, known: Mapping[str, Fingerprint], discarded: StepsByQuery
) -> tuple[tuple[QueryPlan, ...], list[IncompatibleChange]]:
    """The queries with the names of their checkpoints, and the changes that do not fit these."""
    queries, changes = _assign_names(plan, state, known)
    for query in queries:
        if query.name in known:
            changes += changes_of(query, known[query.name], fingerprint(query), discarded.get(query.name, NO_DISCARD))
    return queries, changes


def _is_valid(known: Any) -> bool:
    """Whether the value has sources for each query, as a run stores them."""
    prints = known.values() if isinstance(known, dict) else [None]
    return all(isinstance(one, dict) and isinstance(one.get("sources"), dict) for one in prints)


def fingerprint(query: QueryPlan) -> Fingerprint:
    """The types of its sources, and everything on which Spark's state depends."""
    sources = {name: source.type for name, source in query.sources.items()}
    if query.frame is None:
        return {"sources": sources}
    inputs = [one.name if isinstance(one, SparkRead) else "" for one in frame_sources(query.frame) if _has_offset(one)]
    if query.on_state_lane:
        return {"sources": sources, "reads": [], "stages": list(_stages(query)), "inputs": inputs}
    reads = []
    for leaf in frame_sources(query.frame):
        if isinstance(leaf, Read):
            reads.append(_fields(leaf.schema) if query.stateful else {})
        elif isinstance(leaf, SparkRead) and leaf.source.streaming:
            reads.append({})
    return {"sources": sources, "reads": reads, "stateful": _stateful(query), "mode": query.output_mode, "inputs": inputs}


def _has_offset(read: Read | SparkRead) -> bool:
    """Whether Spark's checkpoint has an offset of a read. It tells them apart by their order only."""
    return isinstance(read, Read) or read.source.streaming


def _stages(query: QueryPlan) -> Iterator[dict[str, Any]]:
    """What each step on the state lane remembers."""
    for stage in stages(query.frame):
        step = stage.node.step
        assert isinstance(step, StatefulStep)
        remembered = step.remembered(stage.node.incoming)
        yield {"step": step.type, **remembered, **_code(step, remembered)}


def _code(step: StatefulStep, remembered: dict[str, Any]) -> dict[str, str]:
    """The versions of the user's functions in the expressions on which the state depends, unless they are there already."""
    texts = json.dumps(remembered, default=str).lower()
    named = [one.version for one in called_functions(step) if f"{one.name.lower()}(" in texts]
    called = {version for version in named if version.lower() not in texts}
    return {"code": ", ".join(sorted(called))} if called else {}


def _with_removed(old: list[Fingerprint], new: Fingerprint) -> Fingerprint:
    """The new fingerprint, with what its steps no longer remember; ``old`` are the steps before."""
    stored = []
    for before, after in zip(old, new.get("stages", []), strict=True):
        known = {name.removeprefix(REMOVED): value for name, value in before.items()}
        gone = {REMOVED + name: value for name, value in known.items() if name.startswith(OPTIONAL) and name not in after}
        stored.append({**after, **gone})
    return {**new, "stages": stored} if stored else new


def _stateful(query: QueryPlan) -> dict[str, Any]:
    """Options of the steps that keep state, numbered in order, so that a further stateless step changes nothing."""
    steps = [node.step for node in spark_nodes(query.frame) if isinstance(node.step, SparkStep) and node.step.stateful]
    return {
        f"{step.type} {number}": step.model_dump(mode="json", by_alias=True, exclude=_STATELESS_OPTIONS)
        for number, step in enumerate(steps, 1)
    }


def _fields(schema: Any) -> dict[str, str]:
    return {field.name: format_type(field.type) for field in schema}


# ── Names ─────────────────────────────────────────────────────────────────────────────────────────


def _assign_names(
    plan: Plan, state: StateFolder, known: Mapping[str, Fingerprint]
) -> tuple[tuple[QueryPlan, ...], list[IncompatibleChange]]:
    """Name queries after the checkpoints that read their sources last; merging or splitting checkpoints is a change."""
    queries, changes = [], []
    used: set[str] = set()
    for query in plan.queries:
        names = _checkpoints_of(query, known)
        if len(names) > 1 or used & names:
            changes.append(IncompatibleChange(query.name, f"its sources were read by {_quoted(names)}, with a checkpoint each"))
        elif names:
            used |= names
            query = replace(query, name=names.pop())
        queries.append(query)
    free = known.keys() - used
    named = [query if query.name in known else _continue_query(query, state, known, free) for query in queries]
    taken = Counter(query.name for query in named)  # two queries cannot go on with one checkpoint
    return tuple(new if taken[new.name] == 1 else old for old, new in zip(queries, named, strict=True)), changes


def _continue_query(query: QueryPlan, state: StateFolder, known: Mapping[str, Fingerprint], free: Collection[str]) -> QueryPlan:
    """A query without a checkpoint, under the name of the one that delivered the same sources to its sinks before.

    An edited expression may need Spark where it ran on Arrow before, or the reverse: that is another query, which goes on where
    the one before it stopped. Of queries without state, which have nothing but offsets or had state until now, and of those of
    one stream, which are called after their last stateful step, and may have gained or lost one since, or lost the only one.
    """
    mine = fingerprint(query)
    alike = [name for name in free if _begin_alike(name, known[name], query.name, mine)]
    alike = alike or [name for name in free if _has_lost_steps(name, state, known[name], query.name, mine)]
    if len(alike) == 1:
        return replace(query, name=alike[0])
    equal = [name for name in free if known[name]["sources"] == mine["sources"]]
    alike = [name for name in equal if has_offsets_only(known[name])] or [name for name in equal if "stages" in known[name]]
    sinks = query.segment.outputs
    if len(alike) != 1 or not has_offsets_only(mine) or not all(state.sink(name).exists() for name in sinks):
        return query
    return replace(query, name=alike[0])


def _begin_alike(name: str, old: Fingerprint, new_name: str, new: Fingerprint) -> bool:
    """Whether two queries are of one stream and the same sources, and have the same stateful steps, first or last one."""
    if not old.get("stages") or not new.get("stages") or old["sources"] != new["sources"]:
        return False
    if _LAST_STEP.sub("", name) != _LAST_STEP.sub("", new_name):
        return False
    types = [[stage.get("step") for stage in one["stages"]] for one in (old, new)]
    ends = ((old["stages"][end], new["stages"][end]) for end in (0, -1))
    return types[0] == types[1] or any(not any(differences(*pair)) for pair in ends)


def _has_lost_steps(name: str, state: StateFolder, old: Fingerprint, new_name: str, new: Fingerprint) -> bool:
    """Whether a query without state had stateful steps before, and another one is of the same stream and sources."""
    is_alike = old["sources"] == new["sources"] and _LAST_STEP.sub("", name) == _LAST_STEP.sub("", new_name)
    return is_alike and bool(new.get("stages")) and has_offsets_only(old) and Manifests(state.rows(name)).last() is not None


def _checkpoints_of(query: QueryPlan, known: Mapping[str, Fingerprint]) -> set[str]:
    """Names of the checkpoints with the offsets of this query's sources; a query with Spark steps is found by its step."""
    if query.frame is not None:
        return {query.name} & known.keys()
    return {name for name, old in known.items() if "reads" not in old and old["sources"].keys() & query.sources.keys()}


def _discard_notes(known: Mapping[str, Fingerprint], queries: tuple[QueryPlan, ...], discarded: StepsByQuery) -> Iterator[str]:
    for query in queries:
        steps = discarded.get(query.name, NO_DISCARD)
        for number in sorted(steps.emptied):
            others = "other steps keep theirs" if known[query.name].get("stages") else "sources keep their offsets"
            yield f"step {stages(query.frame)[number].node.id!r} begins with empty state; {others}"
        for number in sorted(steps.removed):
            name = removed_step_name(query.name, known[query.name]["stages"], number)
            yield f"the state of step {name!r}, which is gone, is dropped; other steps keep theirs"


def _notes(known: Mapping[str, Fingerprint], queries: tuple[QueryPlan, ...], discarded: StepsByQuery) -> Iterator[str]:
    if not known:
        return
    for query in queries:
        if query.name not in known:
            yield f"query {query.name!r} is new: it begins at its sources' start"
        for before, after in zip(_match_remembered(known, query, discarded), fingerprint(query).get("stages", []), strict=True):
            further = after.keys() - before.keys() if before else set()
            added = [name.removeprefix(OPTIONAL) for name in further if name.startswith(OPTIONAL)]
            if added:
                are = "is" if len(added) == 1 else "are"
                counted = f"{_quoted(added)} {are} counted from here on, also in windows that are open"
                yield f"query {query.name!r} keeps its state; {counted}"
        new = query.sources.keys() - known.get(query.name, {"sources": query.sources})["sources"].keys()
        if new:
            yield f"query {query.name!r} has gained {_quoted(new)}, which it reads from the start"
    gone = known.keys() - {query.name for query in queries}
    if gone:
        yield f"no query continues from the checkpoint of {_quoted(gone)}, which is kept"


def _quoted(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names))
