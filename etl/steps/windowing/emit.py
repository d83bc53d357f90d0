"""When a window gives results: the option `emit`, one occasion or a list of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from etl.api import Duration, Expression, Finding, Schema, format_duration
from etl.expressions import analyse, compile_expression

if TYPE_CHECKING:
    from etl.state.windows.emit_rules import EmitRule

_MICROSECOND = timedelta(microseconds=1)
_CONFIG = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class LateResults(BaseModel):
    """Results of closed windows, for events that come later."""

    model_config = _CONFIG

    for_: Duration = Field(alias="for", description="How long after a window's end its late events count.", examples=["1h"])
    every: Duration | None = Field(
        default=None, description="Interval at whose multiples there are results; none means in each micro-batch."
    )
    as_: Literal["corrected", "separate"] = Field(
        default="corrected",
        alias="as",
        description="Whether a result is that of the whole window, or of the late events that no result has yet.",
    )


class Occasion(BaseModel):
    """One occasion for results with options of its own: `every`, `late` or `when`."""

    model_config = _CONFIG

    every: Duration | None = Field(
        default=None, description="Interval at whose multiples open windows have results.", examples=["10s"]
    )
    groups: Literal["changed", "all"] | None = Field(
        default=None, description="With `every`: groups that have changed since (also without the option), or all groups."
    )
    late: LateResults | None = Field(default=None, description="Results for events that come after their window has closed.")
    when: Expression | None = Field(
        default=None,
        description="Condition over the fields of results: one result of each window and group, as soon as it holds.",
        examples=["failures >= 100"],
    )
    again_after: Duration | None = Field(
        default=None, description="With `when`: time after which the next change gives another result, if the condition holds."
    )

    @property
    def kinds(self) -> list[str]:
        """Which occasions it is."""
        return [name for name in ("every", "late", "when") if getattr(self, name) is not None]


Moment = Literal["on_close", "on_change"]
Emit: TypeAlias = Moment | Occasion | tuple[Moment | Occasion, ...]
"""The option's values."""

_Path = tuple[str | int, ...]


def occasions(emit: Emit) -> tuple[Moment | Occasion, ...]:
    """The option as a list."""
    return emit if isinstance(emit, tuple) else (emit,)


def longest_interval(emit: Emit) -> timedelta:
    """The longest time until what has arrived has a result."""
    given = [one for one in occasions(emit) if isinstance(one, Occasion)]
    intervals = [one.every for one in given] + [one.late.every for one in given if one.late]
    return max((every for every in intervals if every), default=timedelta(0))


def intervals(emit: Emit) -> dict[timedelta, bool]:
    """The intervals at whose multiples there are results, true for those that give groups without change as well."""
    found: dict[timedelta, bool] = {}
    for one in [one for one in occasions(emit) if isinstance(one, Occasion)]:
        for every in (one.every, one.late.every if one.late else None):
            if every:
                found[every] = found.get(every, False) or (every == one.every and one.groups == "all")
    return found


def late_intervals(emit: Emit) -> Iterator[str | None]:
    """For what late results wait; None if they are given at once."""
    for one in occasions(emit):
        if isinstance(one, Occasion) and one.late:
            late = one.late
            yield f"every {format_duration(late.every)}, {late.as_}" if late.every else None


def described(emit: Emit) -> str:
    """The option in one line."""
    return "; ".join(_described(one) for one in occasions(emit))


def _described(one: Moment | Occasion) -> str:
    if not isinstance(one, Occasion):
        return one.replace("_", " ")
    if one.every:
        return f"every {format_duration(one.every)}, {one.groups or 'changed'} groups"
    if one.late:
        every = f" every {format_duration(one.late.every)}" if one.late.every else ""
        return f"late for {format_duration(one.late.for_)}{every}, {one.late.as_}"
    again = f", again after {format_duration(one.again_after)}" if one.again_after else ", once"
    return f"when {one.when}{again}"


def emit_rules(emit: Emit, results: Schema) -> list[EmitRule]:
    """The occasions at work."""
    return [_rule(one, results) for one in occasions(emit)]


def _rule(one: Moment | Occasion, results: Schema) -> EmitRule:
    from etl.state.windows.emit_rules import Every, Late, OnChange, OnClose, When

    if not isinstance(one, Occasion):
        return OnChange() if one == "on_change" else OnClose()
    if one.every is not None:
        return Every(one.every // _MICROSECOND, one.groups == "all")
    if one.late is not None:
        every = one.late.every // _MICROSECOND if one.late.every else None
        return Late(one.late.for_ // _MICROSECOND, every, one.late.as_ == "separate")
    assert one.when is not None
    again = one.again_after // _MICROSECOND if one.again_after else None
    return When(one.when, compile_expression(one.when, results), again)


# ── Checks ────────────────────────────────────────────────────────────────────────────────────────


def emit_findings(emit: Emit, sizes: Sequence[timedelta], results: Schema) -> Iterator[Finding]:
    """What contradicts itself or never gives results. There are no ``sizes`` of sessions, nor where each event has one."""
    given = occasions(emit)
    for at, one in enumerate(given if not sizes else ()):
        if isinstance(one, Occasion):
            message = f"sessions, and windows whose size is in a field, are given on_close and on_change only, not {_same(one)}"
            yield Finding("bad-emit", message, _path(emit, at), "leave it out; or give a fixed size")
    if not given:
        yield Finding("bad-emit", "the list is empty, and windows never give results", ("emit",), "leave out emit")
    for at, one in enumerate(given):
        path = _path(emit, at)
        if isinstance(one, Occasion) and sizes:
            yield from _occasion_findings(one, path, max(sizes), results)
        if _same(one) in map(_same, given[:at]):
            yield Finding("bad-emit", f"{_same(one)} is there twice", path, "leave one of them out")
    if sizes:
        yield from _together(emit, given)


def having_findings(having: str | None, emit: Emit, results: Schema) -> Iterator[Finding]:
    """What is wrong with the condition on results, alone or with entries of ``emit`` that have one."""
    if having is None:
        return
    found = analyse(having, results)
    yield from found.condition_findings_at("having")
    conditions = any(isinstance(one, Occasion) and one.when for one in occasions(emit))
    if not found.errors and found.spark_reason and conditions:
        message = f"having has no Arrow form, and when would be given once for results that it drops: {found.spark_reason}"
        yield Finding("bad-emit", message, ("having",), "put the condition into a step filter after the window")


def _path(emit: Emit, at: int) -> _Path:
    return ("emit", at) if isinstance(emit, tuple) else ("emit",)


def _same(one: Moment | Occasion) -> str:
    """What an occasion is known by: no two of a list have the same."""
    if not isinstance(one, Occasion):
        return repr(one)
    return f"when: {one.when}" if one.when else "".join(map(repr, one.kinds[:1]))


def _occasion_findings(one: Occasion, path: _Path, longest: timedelta, results: Schema) -> Iterator[Finding]:
    if len(one.kinds) != 1:
        found = " and ".join(one.kinds) if one.kinds else "none"
        hint = "one entry has one of them: make several entries of a list" if one.kinds else "such as {every: 10s}"
        yield Finding("bad-emit", f"an entry is one of every, late and when, and here is {found}", path, hint)
        return
    for name, owner in (("groups", "every"), ("again_after", "when")):
        if getattr(one, name) is not None and owner not in one.kinds:
            yield Finding("bad-emit", f"{name} belongs to {owner}, and not to {one.kinds[0]}", (*path, name), f"leave out {name}")
    late = one.late
    lengths: dict[_Path, Any] = {("every",): one.every, ("again_after",): one.again_after}
    lengths |= {("late", "for"): late.for_, ("late", "every"): late.every} if late else {}
    for below, length in lengths.items():
        if length is not None and length <= timedelta(0):
            yield Finding("bad-emit", f"{below[-1]} is not longer than nothing", (*path, *below))
    if one.every is not None and one.every >= longest > timedelta(0):
        message = "every is not shorter than the window, which closes before: such results would be chance"
        yield Finding("bad-emit", message, (*path, "every"), "give a shorter interval")
    if one.when is not None:
        condition = analyse(one.when, results)
        yield from condition.condition_findings_at(*path, "when")
        if not condition.errors and condition.spark_reason:
            message = f"the condition has no Arrow form, which when needs: {condition.spark_reason}"
            yield Finding("bad-emit", message, (*path, "when"), "compute what it needs as an aggregate, or in a step in front")


def _together(emit: Emit, given: Sequence[Moment | Occasion]) -> Iterator[Finding]:
    """What needs another occasion, and what another one makes needless."""
    kinds = {one.kinds[0]: one for one in given if isinstance(one, Occasion) and len(one.kinds) == 1}
    every = kinds.get("every")
    if every and "on_close" not in given and "on_change" not in given:
        message = "every gives results before a window closes, and without on_close its last ones are never given"
        yield Finding("bad-emit", message, ("emit",), "emit: [on_close, {every: …}]")
    if every and every.groups != "all" and "on_change" in given:
        message = "on_change gives each change at once, and every would repeat it"
        yield Finding("bad-emit", message, ("emit",), "leave one of them out, or give every the option groups: all")
    if "late" in kinds and "on_close" not in given and "on_change" not in given:
        message = "late gives results after a window has closed, and nothing gives those before"
        yield Finding("bad-emit", message, ("emit",), "emit: [on_close, {late: …}]")
