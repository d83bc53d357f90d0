"""Step `keyed_python`: a function gets the events of a key with its state, whatever micro-batches and restarts cut."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from state.lane import Lane

from etl.api import OFFSET, TIMESTAMP, Schema
from etl.config.loader import inspect
from etl.spark.state.continued_steps import NO_DISCARD, misfits
from etl.steps.keyed.keyed_python import KeyedPython
from etl.udf.declaration import CodeFile, UserFunction
from etl.udf.parameters import FunctionDeclaration
from etl.udf.signature import read_function

CODE = """
from typing import NamedTuple

class State(NamedTuple):
    events: int
    hosts: list[str]

def f(events: list[dict], state: State | None) -> tuple[list[dict], State | None]:
    state = state or State(0, [])
    found = []
    for event in events:
        if event["host"] == "bad":
            raise ValueError("bad host")
        if event["host"] == "end":
            state = State(0, [])
            continue
        found.append({**event, "number": state.events, "is_new": event["host"] not in state.hosts})
        state = State(state.events + 1, sorted({*state.hosts, event["host"]}))
    return found, state if state.events else None
"""
INCOMING: Schema = pa.schema({"user": pa.string(), "at": TIMESTAMP, "host": pa.string(), "n": pa.int64()})
Event = dict[str, Any]


def _function(code: str = CODE, name: str = "f", timeout: float = 5) -> UserFunction:
    found = read_function(FunctionDeclaration(name, CodeFile("f.py", code), name, timedelta(seconds=timeout)))
    assert isinstance(found, UserFunction), found
    return found


def _step(code: str = CODE, timeout: float = 5, **options: Any) -> KeyedPython:
    given = {"keys": ["user"], "function": "f", "fields": {"number": "bigint", "is_new": "boolean"}, **options}
    step = KeyedPython.model_validate({"type": "keyed_python", **given}).with_functions({"f": _function(code, timeout=timeout)})
    assert list(step.check(INCOMING)) == []
    return step


def _naive(events: list[Event], ttl: float = float("inf")) -> list[tuple[int, int, bool]]:
    """The number of each event, its number within its key, and whether its host is new."""
    states: dict[str | None, tuple[int, set[str], float]] = {}
    found = []
    for event in sorted(events, key=lambda event: (event["at"], event["n"])):
        at = event["at"].timestamp()
        count, hosts, last = states.get(event["user"], (0, set(), at))
        if at - last >= ttl or event["host"] == "end":
            count, hosts = 0, set()
        if event["host"] != "end":
            found.append((event["n"], count, event["host"] not in hosts))
            count, hosts = count + 1, hosts | {event["host"]}
        states[event["user"]] = (count, hosts, at)
    return sorted(found)


DRAWN = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y", "end"]), st.integers(0, 8))
STREAMS = st.lists(st.lists(st.lists(DRAWN, max_size=5), min_size=1, max_size=2), max_size=8)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(STREAMS, st.booleans(), st.booleans())
def test_a_key_has_its_state_whatever_is_cut(drawn: list, expires: bool, merges: bool) -> None:
    options = {"ttl": "20s"} if expires else {}
    lane = Lane(_step(time="at", late="10s", **options), INCOMING, Path(tempfile.mkdtemp()), merges=merges)
    events, found = [], []
    for number, splits in enumerate(drawn):
        rows = [
            [
                {"user": user, "host": host, "at": datetime.fromtimestamp(8 * number + seconds, UTC)}
                for user, host, seconds in split
            ]
            for split in splits
        ]
        for row in (row for split in rows for row in split):
            row |= {"n": len(events), OFFSET: len(events)}
            events.append(row)
        found += lane.run(*rows)
    found += lane.run([{"at": datetime.fromtimestamp(10_000, UTC)}])

    assert lane.late == 0
    assert sorted((row["n"], row["number"], row["is_new"]) for row in found) == _naive(events, 20 if expires else float("inf"))


def _row(user: str, host: str, number: int) -> Event:
    return {"user": user, "host": host, "at": datetime.fromtimestamp(number, UTC), "n": number, OFFSET: number}


def test_without_time_events_pass_at_once(tmp_path: Path) -> None:
    step = _step()
    time = step.event_time()[0]
    lane = Lane(step, INCOMING.append(pa.field(time, TIMESTAMP)), tmp_path)

    found = lane.run([_row("a", "x", 1) | {time: datetime.fromtimestamp(1, UTC)}])
    found += lane.run([_row("a", "x", 2) | {time: datetime.fromtimestamp(2, UTC)}])

    assert [(row["n"], row["number"], row["is_new"]) for row in found] == [(1, 0, True), (2, 1, False)]


def test_an_event_for_which_it_fails_is_a_dead_letter_and_leaves_the_state(tmp_path: Path) -> None:
    lane = Lane(_step(FAILING, time="at", late="0s"), INCOMING, tmp_path)
    hosts = ["x", "bad", "y", "unknown", "type", "state", "exit", "z", "alone"]
    found = lane.run([_row("a", host, at) for at, host in enumerate(hosts)] + [_row("b", "x", 1), _row("c", "bad", 2)])

    found += lane.run([_row("a", "later", 100)])

    assert sorted((row["user"], row["host"], row["number"]) for row in found) == [
        ("a", "x", 0),
        ("a", "y", 1),
        ("a", "z", 2),
        ("b", "x", 0),
    ]
    rejects = _rejected(lane)
    assert {code for code, _, _ in rejects} == {"function-failed"}
    assert sorted(event["user"] for _, event, _ in rejects) == ["a"] * 6 + ["c"]
    reasons = {event["n"]: reason for _, event, reason in rejects if event["user"] == "a"}
    assert reasons[1] == "f() failed: ValueError: bad host (f.py:9)"
    assert "returned the field 'nmber', which `fields` does not declare" in reasons[3]
    assert "returned a wrong number" in reasons[4]
    assert "it returned a wrong state" in reasons[5]
    assert reasons[6].startswith("f() failed: SystemExit: 3")
    assert reasons[8] == "f() failed: TypeError: it returned list, and not events and a state"


def _rejected(lane: Lane) -> list[tuple[str, Event, str]]:
    """The code, the event and the reason of each dead letter."""
    found = [
        (one.code, event, str(reason))
        for one in lane.rejects
        for event, reason in zip(one.events.to_pylist(), one.reasons, strict=True)
    ]
    return sorted(found, key=str)


def test_a_call_that_hangs_costs_its_events(tmp_path: Path) -> None:
    lane = Lane(_step(FAILING, timeout=0.2, time="at", late="0s"), INCOMING, tmp_path)
    lane.run([_row("a", "hang", 1), _row("b", "x", 2)])

    found = lane.run([_row("a", "later", 100)])

    assert [row["user"] for row in found] == ["b"]
    assert [str(one.reasons[0]) for one in lane.rejects] == ["f() failed: CallTimeoutError: it took longer than 0.2 s (f.py:21)"]


FAILING = """
import sys, time

def f(events: list[dict], state: list[str] | None) -> tuple[list[dict], list[str] | None]:
    found, state = [], state or []
    for event in events:
        host = event["host"]
        if host == "bad":
            raise ValueError("bad host")
        if host == "alone":
            return found
        if host == "exit":
            state.append("lost")
            sys.exit(3)
        number = "none" if host == "type" else len(state)
        found.append({**event, "nmber" if host == "unknown" else "number": number})
        state.append(host)
        if host == "state":
            return found, [host, 5]
        if host == "hang":
            time.sleep(5)
    return found, state
"""

TIMERS = """
from datetime import datetime, timedelta
from typing import NamedTuple

class State(NamedTuple):
    events: int
    calls: int

def f(events: list[dict], state: State | None) -> tuple[list[dict], State | None, list[datetime]]:
    state = state or State(0, 0)
    last, found = events[-1], []
    for event in events:
        if event["host"] == "bad":
            raise ValueError(event["n"])
        state = State(state.events + 1, state.calls)
        found.append({**event, "number": state.events * 100 + state.calls})
    if last["host"] == "end":
        return found, None, []
    if last["host"] == "stop":
        return found, state, []
    return found, state, [last["at"] + timedelta(seconds=one) for one in ((7,) if last["host"] == "x" else (3, 12))]

def silent(key: dict, state: State, time: datetime) -> tuple[list[dict], State | None, datetime | None]:
    state = State(state.events, state.calls + 1)
    if state.calls == 5:
        raise ValueError("5")
    given = [{"number": -state.calls, "host": f"{state.events}"}]
    return given, state, time + timedelta(seconds=9) if state.calls % 3 else None
"""


def _timed(code: str = TIMERS, **options: Any) -> KeyedPython:
    functions = {name: _function(code, name) for name in ("f", "silent")}
    given = {
        "keys": ["user"],
        "function": "f",
        "on_timer": "silent",
        "fields": {"number": "bigint"},
        "timer_limit": "20s",
        **options,
    }
    step = KeyedPython.model_validate({"type": "keyed_python", **given}).with_functions(functions)
    assert list(step.check(INCOMING)) == []
    return step


def _naive_timers(events: list[Event], until: float) -> list[tuple[str | None, float, int]]:
    """The user, the time and the number of each result: an event of a user is called after the timers before it."""
    found = []
    for user in {event["user"] for event in events}:
        own = sorted((event["at"].timestamp(), event["n"], event["host"]) for event in events if event["user"] == user)
        count, calls, timers = 0, 0, list[float]()
        while own or timers:
            due = min(timers, default=float("inf"))
            if own and own[0][0] <= due:
                at = own[0][0]
                together = [one for one in own if one[0] == at]
                own = own[len(together) :]
                for _ in together:
                    count += 1
                    found.append((user, at, count * 100 + calls))
                host = together[-1][2]
                timers = {"end": [], "stop": [], "x": [at + 7]}.get(host, [at + 3, at + 12])
                count, calls = (0, 0) if host == "end" else (count, calls)
            elif due < until:
                timers.remove(due)
                if calls != 4:  # the fifth call fails
                    calls += 1
                    found.append((user, due, -calls))
                    timers = [due + 9] if calls % 3 else []
            else:
                break
    return sorted(found, key=str)


TIMED = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y", "end", "stop"]), st.integers(0, 8))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.lists(TIMED, max_size=5), min_size=1, max_size=2), max_size=8), st.booleans())
def test_timers_are_called_once_and_in_time_whatever_is_cut(drawn: list, merges: bool) -> None:
    lane = Lane(_timed(time="at", late="10s"), INCOMING, Path(tempfile.mkdtemp()), merges=merges)
    events, found = [], []
    for number, splits in enumerate(drawn):
        rows = [
            [{"user": user, "host": host, "at": datetime.fromtimestamp(8 * number + at, UTC)} for user, host, at in split]
            for split in splits
        ]
        for row in (row for split in rows for row in split):
            row |= {"n": len(events), OFFSET: len(events)}
            events.append(row)
        found += lane.run(*rows)
    found += lane.run([{"at": datetime.fromtimestamp(200, UTC)}])

    assert sorted(((row["user"], row["at"].timestamp(), row["number"]) for row in found), key=str) == _naive_timers(events, 190)


def test_a_timer_or_an_event_that_fails_is_a_dead_letter_and_leaves_the_rest(tmp_path: Path) -> None:
    code = TIMERS.replace("if state.calls % 3 else None", "").replace("state.calls == 5", "state.calls == 2")
    lane = Lane(_timed(code, time="at", late="0s"), INCOMING, tmp_path)
    found = lane.run([_row("a", "x", 0), _row("a", "bad", 0) | {"n": 9}, _row("b", "bad", 1)])

    found += lane.run([_row("c", "x", 100)])

    assert [(row["user"], row["number"]) for row in found] == [("a", 100), ("a", -1)]
    rejects = _rejected(lane)
    assert [code for code, _, _ in rejects] == ["function-failed", "function-failed", "timer-failed"]
    assert rejects[2][1:] == ({"user": "a", "at": datetime.fromtimestamp(16, UTC)}, "silent() failed: ValueError: 5 (f.py:26)")


def test_events_after_the_last_call_of_a_timer_have_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.state.keyed.timed_calls.MAX_CALLS", 2)
    code = TIMERS.replace("if state.calls % 3 else None", "").replace("state.calls == 5", "False")
    lane = Lane(_timed(code, time="at", late="0s"), INCOMING, tmp_path)

    found = lane.run([_row("a", "x", 0), _row("a", "stop", 100)]) + lane.run([_row("c", "x", 200)])

    assert [row["number"] for row in found if row["user"] == "a"] == [100, -1, -2, 202]
    assert [(code, reason) for code, _, reason in _rejected(lane)] == [
        ("timer-failed", "silent() was called 2 times for one key in a micro-batch; its timers end")
    ]


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ("time", "which is not after the time of the call"),
        ("time + timedelta(seconds=21)", "is later than `timer_limit` allows"),
        ("5", "it returned int as a timer, and no datetime"),
    ],
)
def test_timers_that_are_none(returned: str, reason: str, tmp_path: Path) -> None:
    code = TIMERS.replace("time + timedelta(seconds=9) if state.calls % 3 else None", returned)
    lane = Lane(_timed(code, time="at", late="0s"), INCOMING, tmp_path)
    lane.run([_row("a", "x", 1)])

    assert [row["number"] for row in lane.run([_row("c", "x", 100)])] == [100]
    assert reason in str(lane.rejects[0].reasons[0])


def test_without_time_timers_go_by_the_clock(tmp_path: Path) -> None:
    code = TIMERS.replace('last["at"]', "datetime.fromtimestamp(last['n'], UTC)").replace(
        "import datetime", "import UTC, datetime"
    )
    step = _timed(code)
    time = step.event_time()[0]
    lane = Lane(step, INCOMING.append(pa.field(time, TIMESTAMP)), tmp_path)
    at = lambda seconds: {time: datetime.fromtimestamp(seconds, UTC)}  # noqa: E731

    found = [lane.run([_row("a", "x", 1) | at(1)]), lane.run([at(8)]), lane.run([at(9)]), lane.run([at(30)])]

    assert [[(row["user"], row["number"]) for row in one] for one in found] == [
        [("a", 100)],
        [],
        [("a", -1)],
        [("a", -2), ("a", -3)],
    ]
    assert step.intervals() == {timedelta(seconds=10): True}


def test_a_micro_batch_that_runs_again_much_later_may_set_timers_by_the_clock(tmp_path: Path) -> None:
    code = TIMERS.replace('last["at"]', "datetime.now(UTC)").replace("import datetime", "import UTC, datetime")
    step = _timed(code)
    time = step.event_time()[0]
    lane = Lane(step, INCOMING.append(pa.field(time, TIMESTAMP)), tmp_path)

    found = [lane.run([_row("a", "x", 1) | {time: planned}]) for planned in (datetime.fromtimestamp(1, UTC), datetime.now(UTC))]
    after = lane.run([{time: datetime.now(UTC) + timedelta(seconds=8)}])

    assert lane.rejects == []
    assert [row["number"] for rows in (*found, after) for row in rows] == [100, 200, -1]


def test_changed_code_does_not_fit_the_state() -> None:
    before, after = (_step(code).remembered(INCOMING) for code in (CODE, CODE.replace("+ 1", "+ 2")))

    [[text]] = misfits([before], [after], NO_DISCARD).values()
    assert text.startswith("code was 'f ")
    assert misfits([before], [_step(CODE + "# more\n").remembered(INCOMING)], NO_DISCARD) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_timer": None}, "f() returns timers, and nothing is called for them"),
        ({"ttl": "1h"}, "the state of a key with timers ends with them, and not by ttl"),
        ({"on_timer": "f"}, "f() is not a function of a key, its state and a time"),
        ({"timer_precision": "5s"}, "timers go by event time"),
    ],
)
def test_options_of_timers(options: dict[str, Any], message: str) -> None:
    functions = {name: _function(TIMERS, name) for name in ("f", "silent")}
    given = {"keys": ["user"], "function": "f", "on_timer": "silent", "time": "at", "fields": {"number": "bigint"}, **options}
    step = KeyedPython.model_validate({"type": "keyed_python", **given}).with_functions(functions)

    assert [finding.message for finding in step.check(INCOMING)] == [message]


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("events: list[dict]) -> list[dict]", "takes and returns events and a state"),
        ("events: list[dict], state: int | None) -> list[dict]", "takes and returns events and a state"),
        ("events: list[dict], state: int) -> tuple[list[dict], int]", "the state of a key is None at first"),
        ("events: list[dict], state: int | None) -> tuple[list[dict], str]", "is of another type than the one it takes"),
        ("events: list[dict], state: dict | None) -> tuple[list[dict], dict]", "dict does not say of what"),
        ("events: list[dict], state: int | None) -> tuple[list[dict], int, str]", "the timers that it returns are not times"),
        ("key: dict, state: int, time: int) -> tuple[list[dict], int | None]", "gets the time as a datetime"),
        ("key: dict, state: int, time) -> list[dict]", "a function of timers takes and returns events and a state"),
    ],
)
def test_signatures(signature: str, message: str) -> None:
    found = read_function(FunctionDeclaration("f", CodeFile("f.py", f"def f({signature}: ...\n"), "f"))

    assert not isinstance(found, UserFunction)
    assert message in found.message


def test_lint_names_a_function_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(event: dict) -> dict: ...\n")
    steps = "steps:\n  - {type: keyed_python, function: f, keys: [message]}\n"
    (tmp_path / "p.yaml").write_text(f"functions: {{f: f.py}}\nsource: {{type: file, path: in.log}}\n{steps}")

    [found] = inspect(tmp_path / "p.yaml").problems

    assert (found.line, found.code) == (4, "bad-function")
    assert "is not a function of the events and the state of a key" in found.message
