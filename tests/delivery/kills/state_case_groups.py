"""All cases of the kill tests of steps with state, in groups that run in one pipeline."""

from __future__ import annotations

from dataclasses import replace

from function_cases import CALLS
from option_cases import OPTIONS
from state_cases import (
    CHAINS,
    CHANGES,
    EMITS,
    JOINS,
    KEYED,
    LISTED,
    ORDERED,
    WINDOWS,
    Case,
    closing,
    window,
)

# quiet streams

_EVERY = "size: 30s, emit: [on_close, {every: 1s}], emit_reason: why"
_LATE = "size: 10s, emit: [on_close, {late: {for: 1d, every: 1s, as: AS}}]"
_WITH_IDLE = (
    *("window", "window, sliding", "window, sessions", "window, lists"),
    *("dedupe, last with count", "suppress, summary", "top of a key", "top, changes"),
    *("over, within", "over, ttl", "sequence, not followed by", "correlate, at most"),
    *("keyed_python, timers", "keyed_python, timers by the clock", "join, of windows", "two windows, then window"),
    *("join, full", "join, latest", "window, then window", "join, then window"),
)
_FEW = {**WINDOWS, **EMITS, **KEYED, **ORDERED, **CALLS, **JOINS, **CHAINS, **CHANGES}
_ALL = _FEW | OPTIONS


def idle(case: Case) -> Case:
    """The case with steps that do not wait for events on a quiet stream."""
    return case.map_steps(lambda one: one.replace("late: {late}", "late: {late}, idle: 1s"))


QUIET = {f"{name}, idle": idle(_ALL[name]) for name in _WITH_IDLE} | {
    "window, every, quiet": replace(EMITS["window, every"], steps=(window(_EVERY),)),
    "window, every, all groups, quiet": replace(
        EMITS["window, every"],
        steps=(window(_EVERY.replace("every: 1s", "every: 1s, groups: all")),),
        reduce=lambda rows: closing(list(dict.fromkeys(rows))),
    ),
    "window, late, corrected, idle": idle(
        replace(EMITS["window, late, corrected"], steps=(window(_LATE.replace("AS", "corrected"), time="old"),))
    ),
    "window, late, separate, idle": idle(
        replace(EMITS["window, late, separate"], steps=(window(_LATE.replace("AS", "separate"), LISTED, time="old"),))
    ),
}

GROUPS = {
    "windows": WINDOWS,
    "emit": EMITS,
    "keys": KEYED,
    "order": ORDERED,
    "calls": CALLS,
    "joins": JOINS,
    "chains": CHAINS,
    "changes": CHANGES,
    "options": OPTIONS,
}
"""Cases that run in one pipeline, each as a query of its own."""
QUIET_GROUPS = {f"quiet-{number}": dict(list(QUIET.items())[number::3]) for number in range(3)}
CASES = _ALL | QUIET


def few_cases(number: int, of: int) -> dict[str, Case]:
    """Every so many of the cases without further options: each step is in one of the selections."""
    return dict(list(_FEW.items())[number::of])
