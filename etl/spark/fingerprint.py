"""Telling before a run whether a changed pipeline file still fits the checkpoints of the last one.

Spark accepts a changed aggregate or window on an old checkpoint and gives wrong results: we refuse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from etl.api import ComponentError, format_type
from etl.plan.model import Native, Plan, QueryPlan, Read, leaves, spark_nodes
from etl.spark.state import State, read_json, write_json


@dataclass(frozen=True)
class Change:
    """Something a checkpoint cannot take."""

    query: str
    what: str


def fingerprint(query: QueryPlan) -> dict[str, Any]:
    """What of a query its checkpoint depends on: its sources' types, and everything that shapes Spark's state."""
    sources = {name: source.type for name, source in query.sources.items()}
    if query.frame is None:
        return {"sources": sources}
    reads = []
    for leaf in leaves(query.frame):
        if isinstance(leaf, Read):
            reads.append({"sources": sorted(leaf.sources), "fields": _fields(leaf.schema) if query.stateful else {}})
        elif isinstance(leaf, Native) and leaf.source.streaming:
            reads.append({"sources": [leaf.name], "fields": {}})
    stateful = [node for node in spark_nodes(query.frame) if getattr(node.step, "stateful", False)]
    steps = {node.id: node.step.model_dump(mode="json", exclude=_FREE) for node in stateful}
    return {"sources": sources, "reads": reads, "stateful": steps, "mode": query.output_mode}


_FREE = {"having", "idle"}
"""Options of stateful steps that leave no trace in their state."""


def _fields(schema: Any) -> dict[str, str]:
    return {field.name: format_type(field.type) for field in schema}


def check(plan: Plan, state: State) -> None:
    """Compare with the last run, then remember this one. Raises ComponentError that lists what changed and the ways out."""
    path = state.root / "plan.json"
    known = read_json(path) or {}
    now = {query.name: fingerprint(query) for query in plan.queries}
    changes = [change for name, print_ in now.items() if name in known for change in _changes(name, known[name], print_)]
    if changes:
        lines = "".join(f"\n  {change.query}: {change.what}" for change in changes)
        folders = ", ".join(sorted({str(state.query(change.query)) for change in changes}))
        raise ComponentError(
            f"the pipeline no longer fits the checkpoint of its last run:{lines}\n"
            "what can be done: undo the change; or give this version a state folder of its own with --state; "
            f"or remove {folders}, and the query begins anew at its sources' start"
        )
    write_json(path, {**known, **now})


def _changes(query: str, old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    found = []
    for name in old["sources"].keys() & new["sources"].keys():
        if old["sources"][name] != new["sources"][name]:
            found.append(f"source {name!r} was of type {old['sources'][name]} and is {new['sources'][name]} now")
    if old.get("reads") != new.get("reads"):
        found.append(_read_change(old.get("reads") or [], new.get("reads") or []))
    for step in old.get("stateful", {}).keys() | new.get("stateful", {}).keys():
        found += _step_changes(step, old.get("stateful", {}).get(step), new.get("stateful", {}).get(step))
    if old.get("mode") != new.get("mode"):
        found.append(f"results were emitted in {old.get('mode')} mode and are in {new.get('mode')} mode now")
    return [Change(query, what) for what in found]


def _read_change(old: list[Any], new: list[Any]) -> str:
    if [r["sources"] for r in old] != [r["sources"] for r in new]:
        return f"it read {_names(old)} and reads {_names(new)} now"
    return f"the fields it hands to its stateful step were {_shown(old)} and are {_shown(new)} now"


def _names(reads: list[Any]) -> str:
    return ", ".join("+".join(read["sources"]) for read in reads) or "nothing"


def _shown(reads: list[Any]) -> str:
    return "; ".join(", ".join(f"{name} {kind}" for name, kind in read["fields"].items()) for read in reads) or "none"


def _step_changes(step: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[str]:
    if old is None:
        return [f"step {step} is new, and it keeps state"]
    if new is None:
        return [f"step {step} is gone, and it kept state"]
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"step {step}: {name} was {old.get(name)!r} and is {new.get(name)!r} now" for name in names]
