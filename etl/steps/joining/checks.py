"""Checks of the options of a join against the fields of its sides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from etl.api import SIDE, SIDE_TIME, Finding, Schema, format_type, unknown_field, visible, wider
from etl.contract.errors import MAX_NAMES_SHOWN
from etl.expressions import analyse
from etl.steps.joining.join_fields import JoinedFields
from etl.steps.option_checks import time_findings, unused_option

if TYPE_CHECKING:
    from etl.steps.joining.join import Join


def join_findings(step: Join, pair: JoinedFields) -> Iterator[Finding]:
    """Keys that cannot be compared, times, bounds, names, the condition."""
    yield from _check_keys(step.on, pair.left, pair.right)
    yield from _check_times(step, pair.left, pair.right)
    yield from _check_changelog(step) if step.changelog else _check_bounds(step)
    yield from _check_names(pair)
    if step.where is not None:
        analysis = analyse(step.where, pair.schema)
        yield from (_with_side(finding, pair) for finding in analysis.condition_findings_at("where"))
        if not analysis.errors and analysis.spark_reason:
            message = f"the condition needs Spark, where joins do not run: {analysis.spark_reason}"
            yield Finding("bad-expression", message, ("where",), "compute it in a step before the join or after it")


def _check_keys(on: Mapping[str, str], left: Schema, right: Schema) -> Iterator[Finding]:
    from etl.state.key_hash import is_key_type

    for names in on.items():
        sides = zip(names, (left, right), ("left", "right"), strict=True)
        unknown = [_unknown_key(name, side, called) for name, side, called in sides if name not in side.names]
        if len(unknown) > len(set(names)):
            unknown = [replace(unknown[0], message=f"neither side has a field {names[0]!r}")]
        yield from unknown
        if unknown:
            continue
        types = left.field(names[0]).type, right.field(names[1]).type
        shown = " and ".join(format_type(type_) for type_ in types)
        if wider(*types) is None:
            message = f"key {names[0]!r} is {shown}, which are never equal"
            yield Finding("wrong-type", message, ("on",), "convert it on one side with a convert step")
        elif not all(map(is_key_type, types)):
            yield Finding("wrong-type", f"key {names[0]!r} is {shown}, which has no equality", ("on",), "use its members")


def _unknown_key(name: str, side: Schema, called: str) -> Finding:
    finding = unknown_field(name, side, ("on",))
    return replace(finding, message=f"the {called} side has no field {name!r}")


_UNKNOWN = re.compile(r"there is no field '(.+)' here")


def _with_side(finding: Finding, pair: JoinedFields) -> Finding:
    """The finding for a field of a side that does not exist, or has another name in a pair, with what the side has."""
    found = _UNKNOWN.fullmatch(finding.message) if finding.code == "unknown-field" else None
    for prefix, side, names in (("left.", pair.left, {}), (pair.prefix, pair.right, pair.right_names)):
        if found is None or not found[1].startswith(prefix):
            continue
        name = found[1].removeprefix(prefix)
        known = [other for other in visible(side).names if other not in (SIDE, SIDE_TIME)]
        if name in known:
            return replace(finding, hint=f"a pair calls it {names.get(name, name)!r}")
        called = "left" if side is pair.left else "right"
        return replace(finding, hint=f"the {called} side has no field {name!r}; it has {', '.join(known[:MAX_NAMES_SHOWN])}")
    return finding


def _check_times(step: Join, left: Schema, right: Schema) -> Iterator[Finding]:
    if step.time is None and step.right_time is not None:
        yield Finding("missing-option", "right_time needs a time of the left side, too", ("right_time",), "give time")
    for side, name, option in zip((left, right), step.times or (), ("time", "right_time"), strict=False):
        yield from time_findings(name, side, (option,) if getattr(step, option) else ("time",))


def _check_changelog(step: Join) -> Iterator[Finding]:
    """Options without a meaning where all events match."""
    for option in ("time", "within", "before", "after", "shift", "limit", "match", "idle", "late"):
        if option in step.model_fields_set:
            message = f"{option} has no meaning for a changelog: all events match, whenever they are read"
            yield Finding("unused-option", message, (option,), f"leave out {option}, or changelog")


def _check_bounds(step: Join) -> Iterator[Finding]:
    if step.ttl is not None:
        yield unused_option("ttl", "times say how long events wait for a match", "leave out ttl, or add changelog: true")
    if step.within is not None and (step.before, step.after) != (None, None):
        other = "before" if step.before is not None else "after"
        yield Finding("one-of-two", f"within sets the same as {other}", (other,), "leave out within, or before and after")
    if step.match == "latest":
        for option in ("within", "after", "shift"):
            if getattr(step, option):
                message = f"match: latest takes the right event before the left one, and {option} is for match: all"
                yield Finding("one-of-two", message, (option,), "leave it out; before says how old a version may be")
        if step.kind not in ("inner", "left"):
            message = f"match: latest is for kind inner or left, and not for {step.kind}"
            yield Finding("one-of-two", message, ("kind",), "kind: left also gives left events without a version")
        if step.limit is not None:
            yield unused_option("limit", "match: latest gives each left event once", "leave it out; before bounds the versions")
    elif (step.within, step.before, step.after) == (None, None, None):
        hint = "within: 10m; before and after, for different times to both sides; or changelog: true, where all match"
        yield Finding("missing-option", "nothing says how long events wait for a match", (), hint)


def _check_names(pair: JoinedFields) -> Iterator[Finding]:
    names = [*pair.left.names, *pair.right_names.values()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        yield Finding("name-conflict", f"a pair would have two fields {twice!r}", ("prefix",), "choose another prefix")
