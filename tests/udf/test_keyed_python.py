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

from etl.api import OFFSET, TIMESTAMP, ComponentError, Schema
from etl.config.loader import inspect
from etl.spark.state.continued_steps import misfits
from etl.steps.keyed.keyed_python import KeyedPython
from etl.udf.declaration import CodeFile, UserFunction
from etl.udf.signature import FunctionDeclaration, read_function

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


def _function(code: str = CODE) -> UserFunction:
    found = read_function(FunctionDeclaration("f", CodeFile("f.py", code), "f", timedelta(seconds=5)))
    assert isinstance(found, UserFunction), found
    return found


def _step(code: str = CODE, **options: Any) -> KeyedPython:
    given = {"keys": ["user"], "function": "f", "fields": {"number": "bigint", "is_new": "boolean"}, **options}
    step = KeyedPython.model_validate({"type": "keyed_python", **given}).with_functions({"f": _function(code)})
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


def test_an_error_ends_the_run_with_its_place(tmp_path: Path) -> None:
    lane = Lane(_step(time="at", late="0s"), INCOMING, tmp_path)
    lane.run([_row("a", "bad", 1)])

    with pytest.raises(ComponentError, match=r"keyed_python: f\(\) failed: ValueError: bad host \(f.py:13\)"):
        lane.run([_row("a", "x", 5)])


def test_what_it_returns_is_checked(tmp_path: Path) -> None:
    lane = Lane(_step(CODE.replace('"number": state', '"nmber": state'), time="at", late="0s"), INCOMING, tmp_path)
    lane.run([_row("a", "x", 1)])

    with pytest.raises(ComponentError, match="returned the field 'nmber', which `fields` does not declare"):
        lane.run([_row("a", "x", 5)])


def test_changed_code_does_not_fit_the_state() -> None:
    before, after = (_step(code).remembered(INCOMING) for code in (CODE, CODE.replace("+ 1", "+ 2")))

    [[text]] = misfits([before], [after], ()).values()
    assert text.startswith("code was 'f ")
    assert misfits([before], [_step(CODE + "# more\n").remembered(INCOMING)], ()) == {}


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("events: list[dict]) -> list[dict]", "takes and returns events and a state"),
        ("events: list[dict], state: int | None) -> list[dict]", "takes and returns events and a state"),
        ("events: list[dict], state: int) -> tuple[list[dict], int]", "the state of a key is None at first"),
        ("events: list[dict], state: int | None) -> tuple[list[dict], str]", "is of another type than the one it takes"),
        ("events: list[dict], state: dict | None) -> tuple[list[dict], dict]", "dict does not say of what"),
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
    assert "is no function of the events and the state of a key" in found.message
