"""When a window gives results: the option `emit`, one trigger or a list of them."""

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


class EmitTrigger(BaseModel):
    """A trigger of results that has options of its own: `every`, `late` or `when`."""

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
        """Which of the options that make a trigger are given; exactly one is right."""
        return [name for name in ("every", "late", "when") if getattr(self, name) is not None]


WindowEvent = Literal["on_close", "on_change"]
Emit: TypeAlias = WindowEvent | EmitTrigger | tuple[WindowEvent | EmitTrigger, ...]
"""The option's values."""

_Path = tuple[str | int, ...]


def triggers_of(emit: Emit) -> tuple[WindowEvent | EmitTrigger, ...]:
    """The option as a list."""
    return emit if isinstance(emit, tuple) else (emit,)


def longest_interval(emit: Emit) -> timedelta:
    """The longest time until what has arrived has a result."""
    given = [one for one in triggers_of(emit) if isinstance(one, EmitTrigger)]
    intervals = [one.every for one in given] + [one.late.every for one in given if one.late]
    return max((every for every in intervals if every), default=timedelta(0))


def intervals(emit: Emit) -> dict[timedelta, bool]:
    """The intervals at whose multiples there are results, true for those that give groups without change as well."""
    found: dict[timedelta, bool] = {}
    for one in [one for one in triggers_of(emit) if isinstance(one, EmitTrigger)]:
        for every in (one.every, one.late.every if one.late else None):
            if every:
                found[every] = found.get(every, False) or (every == one.every and one.groups == "all")
    return found


def late_intervals(emit: Emit) -> Iterator[str | None]:
    """The interval that late results wait for, as text; None if they are given in each micro-batch."""
    for one in triggers_of(emit):
        if isinstance(one, EmitTrigger) and one.late:
            late = one.late
            yield f"every {format_duration(late.every)}, {late.as_}" if late.every else None


def describe_emit(emit: Emit) -> str:
    """The option in one line."""
    return "; ".join(_describe_trigger(one) for one in triggers_of(emit))


def _describe_trigger(one: WindowEvent | EmitTrigger) -> str:
    if not isinstance(one, EmitTrigger):
        return one.replace("_", " ")
    if one.every:
        return f"every {format_duration(one.every)}, {one.groups or 'changed'} groups"
    if one.late:
        every = f" every {format_duration(one.late.every)}" if one.late.every else ""
        return f"late for {format_duration(one.late.for_)}{every}, {one.late.as_}"
    again = f", again after {format_duration(one.again_after)}" if one.again_after else ", once"
    return f"when {one.when}{again}"


def emit_rules(emit: Emit, results: Schema) -> list[EmitRule]:
    """The rule of each trigger."""
    return [_rule(one, results) for one in triggers_of(emit)]


def _rule(one: WindowEvent | EmitTrigger, results: Schema) -> EmitRule:
    from etl.state.windows.emit_rules import OnChange, OnClose, OnCondition
    from etl.state.windows.interval_results import OnInterval, OnLateEvents

    if not isinstance(one, EmitTrigger):
        return OnChange() if one == "on_change" else OnClose()
    if one.every is not None:
        return OnInterval(one.every // _MICROSECOND, one.groups == "all")
    if one.late is not None:
        every = one.late.every // _MICROSECOND if one.late.every else None
        return OnLateEvents(one.late.for_ // _MICROSECOND, every, one.late.as_ == "separate")
    assert one.when is not None
    again = one.again_after // _MICROSECOND if one.again_after else None
    return OnCondition(one.when, compile_expression(one.when, results), again)


# ── Checks ────────────────────────────────────────────────────────────────────────────────────────


def emit_findings(emit: Emit, sizes: Sequence[timedelta], results: Schema) -> Iterator[Finding]:
    """Triggers that contradict each other or never fire. ``sizes`` is empty for sessions and for sizes in a field."""
    given = triggers_of(emit)
    for at, one in enumerate(given if not sizes else ()):
        if isinstance(one, EmitTrigger):
            message = (
                f"sessions, and windows whose size is in a field, are given on_close and on_change only, not {_trigger_key(one)}"
            )
            yield Finding("bad-emit", message, _path(emit, at), "leave it out; or give a fixed size")
    if not given:
        yield Finding("bad-emit", "the list is empty, and windows never give results", ("emit",), "leave out emit")
    for at, one in enumerate(given):
        path = _path(emit, at)
        if isinstance(one, EmitTrigger) and sizes:
            yield from _trigger_findings(one, path, max(sizes), results)
        if _trigger_key(one) in map(_trigger_key, given[:at]):
            yield Finding("bad-emit", f"{_trigger_key(one)} is there twice", path, "leave one of them out")
    if sizes:
        yield from _combination_findings(emit, given)


def having_findings(having: str | None, emit: Emit, results: Schema) -> Iterator[Finding]:
    """What is wrong with the condition on results, alone or with entries of ``emit`` that have one."""
    if having is None:
        return
    found = analyse(having, results)
    yield from found.condition_findings_at("having")
    conditions = any(isinstance(one, EmitTrigger) and one.when for one in triggers_of(emit))
    if not found.errors and found.spark_reason and conditions:
        message = f"having has no Arrow form, and when would be given once for results that it drops: {found.spark_reason}"
        yield Finding("bad-emit", message, ("having",), "put the condition into a step filter after the window")


def _path(emit: Emit, at: int) -> _Path:
    return ("emit", at) if isinstance(emit, tuple) else ("emit",)


def _trigger_key(one: WindowEvent | EmitTrigger) -> str:
    """What identifies a trigger: no two of a list have the same."""
    if not isinstance(one, EmitTrigger):
        return repr(one)
    return f"when: {one.when}" if one.when else "".join(map(repr, one.kinds[:1]))


def _trigger_findings(one: EmitTrigger, path: _Path, longest: timedelta, results: Schema) -> Iterator[Finding]:
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
            yield Finding("bad-emit", f"{below[-1]} must be longer than 0", (*path, *below))
    if one.every is not None and one.every >= longest > timedelta(0):
        message = "every is not shorter than the window, which closes before: whether there is such a result would be chance"
        yield Finding("bad-emit", message, (*path, "every"), "give a shorter interval")
    if one.when is not None:
        condition = analyse(one.when, results)
        yield from condition.condition_findings_at(*path, "when")
        if not condition.errors and condition.spark_reason:
            message = f"the condition has no Arrow form, which when needs: {condition.spark_reason}"
            yield Finding("bad-emit", message, (*path, "when"), "compute what it needs as an aggregate, or in an earlier step")


def _combination_findings(emit: Emit, given: Sequence[WindowEvent | EmitTrigger]) -> Iterator[Finding]:
    """Triggers that need another one, and triggers that another one makes useless."""
    kinds = {one.kinds[0]: one for one in given if isinstance(one, EmitTrigger) and len(one.kinds) == 1}
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
