"""Cases of `state_cases` with functions of the user: what they give, and which events become dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from state_cases import Case, Event, Row, every_number, instant, never, new_block, numbers, of_keys, running, step, window

CODE = """
from datetime import datetime, timedelta
from typing import NamedTuple

class State(NamedTuple):
    events: int
    total: int

def track(events: list[dict], state: State | None) -> tuple[list[dict], State | None]:
    found = []
    for event in events:
        state = State(state.events + 1, state.total + event["v"]) if state else State(1, event["v"])
        found.append({**event, "c": state.events, "s": state.total})
    return found, state

def track_others(events: list[dict], state: State | None) -> tuple[list[dict], State | None]:
    if any(event["n"] % 10 == 3 for event in events):
        raise ValueError("3")
    return track(events, state)

def wait(events: list[dict], state: list[int] | None) -> tuple[list[dict], list[int] | None, list[datetime]]:
    last = events[-1]["at"]
    numbers = [*(state or []), *(event["n"] for event in events)]
    return [], numbers, [last + timedelta(seconds=2), last + timedelta(seconds=4)]

def give(key: dict, state: list[int], time: datetime) -> tuple[list[dict], list[int] | None, datetime | None]:
    if key["key"] == "u3":
        raise ValueError("u3")
    if state[-1] < 0:
        return [{"numbers": state[:-1]}], None, None
    return [{"numbers": state}], [*state, -1], time + timedelta(seconds=2)

def wait_by_clock(events: list[dict], state: list[int] | None) -> tuple[list[dict], list[int] | None, datetime | None]:
    return [], [*(state or []), *(event["n"] for event in events)], datetime.now().astimezone() + timedelta(seconds=1)

def give_by_clock(key: dict, state: list[int], time: datetime) -> tuple[list[dict], list[int] | None, datetime | None]:
    return [{"numbers": state}], None, None

class Total:
    def create(self) -> State:
        return State(0, 0)

    def add(self, state: State, x: int) -> State:
        if x % 10 == 3:
            raise ValueError("3")
        return State(state.events + 1, state.total + x)

    def merge(self, a: State, b: State) -> State:
        return State(a.events + b.events, a.total + b.total)

    def finish(self, state: State) -> int:
        if state.total % 10 == 7:
            raise ValueError("7")
        return state.total
"""

_TRACK = "function: track, fields: {c: bigint, s: bigint}"
_TIMER = "function: wait, on_timer: give, timer_limit: 5s, fields: {numbers: 'array<bigint>'}"
_CLOCK = (
    "{type: keyed_python, keys: [key], function: wait_by_clock, on_timer: give_by_clock, timer_limit: 1m, timer_precision: 1s, "
    "fields: {numbers: 'array<bigint>'}}"
)


def tracked(begins: Callable[[Event, Event], bool]) -> Callable[[Sequence[Event]], list[Row]]:
    return lambda events: [row[:-1] for row in running(events, begins)]


def fails(event: Event) -> bool:
    return bool(event["n"] % 10 == 3)


def tracked_without_failed(events: Sequence[Event]) -> Iterator[Row]:
    yield from tracked(never)([one for one in events if not fails(one)])
    yield from (("function-failed", one["n"], None, None) for one in events if fails(one))


def timer_rows(events: Sequence[Event]) -> Iterator[Row]:
    """The numbers of the events of each key and block, by two timers, which fail for one key."""
    for (_, key), some in of_keys(events).items():
        listed = tuple(one["n"] for one in some)
        times = [instant(some[-1]["at"] + seconds * 1000) for seconds in (2, 4)]
        yield from (("timer-failed", None, time, key) if key == "u3" else (listed, time, key) for time in times)


def totals_without_failed(total: Callable[[list[int]], int], wrong: int) -> Callable[[Sequence[Event]], Iterator[Row]]:
    """The total and count of the events of each key and block; those that fail are dead letters, and so are some totals."""

    def rows(events: Sequence[Event]) -> Iterator[Row]:
        for (_, key), some in of_keys(events).items():
            counted = [one["n"] for one in some if not fails(one)]
            if counted and total(counted) % 10 == wrong:
                yield ("result-failed", key, None, len(counted), None)
            elif counted:
                yield (key, total(counted), len(counted), None)
            yield from (("aggregate-failed", key, None, None, one["n"]) for one in some if fails(one))

    return rows


_LETTER = ("key", "s", "c", "n")

CALLS = {
    "keyed_python": Case((step("keyed_python", _TRACK),), ("n", "c", "s"), tracked(never), functions=("track",)),
    "keyed_python, ttl": Case(
        (step("keyed_python", f"{_TRACK}, ttl: 5s"),), ("n", "c", "s"), tracked(new_block), functions=("track",)
    ),
    "keyed_python, events that fail": Case(
        (step("keyed_python", _TRACK.replace("track", "track_others")),),
        ("n", "c", "s"),
        tracked_without_failed,
        functions=("track_others",),
        dead_letters=True,
    ),
    "keyed_python, timers": Case(
        (step("keyed_python", _TIMER),),
        ("numbers", "at", "key"),
        timer_rows,
        functions=("wait", "give"),
        dead_letters=True,
    ),
    "keyed_python, timers by the clock": Case(
        (_CLOCK,), ("numbers",), every_number, functions=("wait_by_clock", "give_by_clock"), reduce=numbers
    ),
    "window, own aggregate": Case(
        (window("size: 10s", "aggregates: {s: total(n), c: count(*)}"),),
        _LETTER,
        totals_without_failed(sum, 7),
        functions=("Total",),
        dead_letters=True,
    ),
    "window, arguments that fail": Case(
        (window("size: 10s", "aggregates: {s: count(100 / (n % 10 - 3)), c: count(*)}"),),
        _LETTER,
        totals_without_failed(len, 10),
        dead_letters=True,
    ),
}
