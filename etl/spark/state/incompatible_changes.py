"""Changes of a query between two runs that do not fit its checkpoint, and the error that names them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from etl.plan.frames import stages
from etl.plan.query_plan import QueryPlan
from etl.spark.state.continued_steps import DiscardedState, change_of, misfits, orphaned_steps, removed_step_name
from etl.spark.state.folder import StateFolder

Fingerprint: TypeAlias = dict[str, Any]
"""The properties of a query on which its checkpoint depends, as JSON."""


@dataclass(frozen=True)
class IncompatibleChange:
    """A change of a query that does not fit its checkpoint."""

    query: str
    what: str
    steps: tuple[str, ...] = ()
    """The stateful steps that it concerns alone."""


def has_offsets_only(known: Fingerprint) -> bool:
    """Whether a checkpoint has the offsets of one input, and no state."""
    has_state = "stages" in known or bool(known.get("stateful"))
    return bool(known["sources"]) and not has_state and known.get("reads", [{}]) == [{}]


def refusal(changes: list[IncompatibleChange], state: StateFolder) -> str:
    """The error for changes that do not fit, and what can be done."""
    return (
        f"{_misfit(changes)}what can be done: undo the change; or {_new_state(changes)}give this version a state folder of its "
        f"own with --state; or remove {_folders(changes, state)}, and the query starts over at its sources' start"
    )


def refusal_on_server(name: str, changes: list[IncompatibleChange], state: StateFolder) -> str:
    """The error for changes of a pipeline of a server, which has no options of its own."""
    return (
        f"{_misfit(changes)}what can be done: undo the change; or deploy this version under another name, with state of its own; "
        f"or `etl stop {name}`, remove {_folders(changes, state)} on the server, deploy it again and `etl start {name}`: "
        "the query then starts over at its sources' start"
    )


def _misfit(changes: list[IncompatibleChange]) -> str:
    lines = "".join(f"\n  {change.query}: {change.what}" for change in changes)
    return f"the pipeline no longer fits the checkpoint of its last run:{lines}\n"


def _folders(changes: list[IncompatibleChange], state: StateFolder) -> str:
    return ", ".join(sorted({str(state.query(change.query)) for change in changes}))


def _new_state(changes: list[IncompatibleChange]) -> str:
    """How a run can begin with empty state for some steps; nothing where that is not enough."""
    if not all(change.steps for change in changes):
        return ""
    options = " ".join(dict.fromkeys(f"--new-state '{step}'" for change in changes for step in change.steps))
    return f"run it once with {options}, which empties the state of what it names and keeps all other; or "


def changes_of(query: QueryPlan, old: Fingerprint, new: Fingerprint, discarded: DiscardedState) -> Iterator[IncompatibleChange]:
    """What has changed in a query and does not fit its checkpoint. ``discarded``: the steps whose state the run gives up."""
    yield from (IncompatibleChange(query.name, what) for what in _query_changes(old, new))
    if _have_stages(old, new):
        yield from (
            IncompatibleChange(query.name, *found)
            for found in _stage_changes(query, old.get("stages", []), new.get("stages", []), discarded)
        )


def _have_stages(old: Fingerprint, new: Fingerprint) -> bool:
    """Whether one of two versions of a query has steps on the state lane, and the other has such steps too or no state at all."""
    if "stages" in old and "stages" in new:
        return True
    return ("stages" in old and has_offsets_only(new)) or ("stages" in new and has_offsets_only(old))


def _inputs(known: Fingerprint) -> list[str]:
    """What the query reads, in the order of its checkpoint; one read of sources other than Spark's where nothing is stored."""
    return known.get("inputs") or [""]


def _query_changes(old: Fingerprint, new: Fingerprint) -> Iterator[str]:
    for name in old["sources"].keys() & new["sources"].keys():
        if old["sources"][name] != new["sources"][name]:
            yield f"source {name!r} was of type {old['sources'][name]} and is {new['sources'][name]} now"
    if has_offsets_only(new) and has_offsets_only(old):
        return
    if ("stages" in old) != ("stages" in new) and _have_stages(old, new):
        if _inputs(old) != _inputs(new):
            yield _input_change(_inputs(old), _inputs(new))
        return
    if ("stages" in old) != ("stages" in new) and ("stateful" in old or "stateful" in new):
        here, there = ("in Spark's checkpoint", "in files of its own")
        yield f"its state is {here if 'stages' in old else there} now, and was {there if 'stages' in old else here}"
        return
    if old.get("reads") != new.get("reads"):
        yield _read_change(old.get("reads") or [], new.get("reads") or [])
    elif old.get("inputs") and new.get("inputs") and old["inputs"] != new["inputs"]:
        yield _input_change(old["inputs"], new["inputs"])
    for step in sorted(old.get("stateful", {}).keys() | new.get("stateful", {}).keys()):
        yield from _step_changes(step, old.get("stateful", {}).get(step), new.get("stateful", {}).get(step))
    if old.get("mode") != new.get("mode"):
        yield f"results were emitted in {old.get('mode')} mode and are in {new.get('mode')} mode now"


def _stage_changes(
    query: QueryPlan, old: list[Fingerprint], new: list[Fingerprint], discarded: DiscardedState
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What has changed, and the steps that it concerns alone."""
    ids = [f"{query.name}/{stage.node.id}" for stage in stages(query.frame)]
    found, left = misfits(old, new, discarded), orphaned_steps(old, new, discarded)
    if left or (len(old) - len(discarded.removed) != len(new) and found):
        yield (
            f"it had {len(old) or 'no'} stateful step{'' if len(old) == 1 else 's'} and has {len(new) or 'none'} now",
            (*(ids[at] for at in found), *(removed_step_name(query.name, old, at) for at in left)),
        )
        return
    for at, texts in found.items():
        yield from ((f"step {new[at]['step']} {at + 1}: {text}", (ids[at],)) for text in texts)


def _input_change(old: list[str], new: list[str]) -> str:
    """``old`` and ``new``: the names of the sources that Spark reads, and an empty text for each read of others."""
    before, now = (", ".join(repr(name) if name else "other sources" for name in names) for names in (old, new))
    return f"Spark read {before}, and is to read {now}: it knows offsets by the order of what it reads, and not by names"


def _read_change(old: list[Any], new: list[Any]) -> str:
    if len(old) != len(new):
        return f"it had {len(old)} streaming inputs and has {len(new)} now"
    return f"the fields it hands to its stateful step were {_shown(old)} and are {_shown(new)} now"


def _shown(reads: list[Any]) -> str:
    return "; ".join(", ".join(f"{name} {kind}" for name, kind in read.items()) for read in reads) or "none"


def _step_changes(step: str, old: Fingerprint | None, new: Fingerprint | None) -> Iterator[str]:
    if old is None or new is None:
        yield f"step {step} is {'new, and it keeps' if old is None else 'gone, and it kept'} state"
        return
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield f"step {step}: {change_of(name, old.get(name), new.get(name))}"
