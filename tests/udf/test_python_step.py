"""Step `python`: functions of whole events, as dicts or as record batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.api import OFFSET, TIMESTAMP, Outcome
from etl.config.loader import inspect
from etl.steps.python import Python
from etl.udf.declaration import CodeFile, UserFunction
from etl.udf.parameters import FunctionDeclaration
from etl.udf.signature import read_function

IMPORTS = "import pyarrow as pa\nimport pyarrow.compute as pc\nfrom collections.abc import Iterator\nfrom typing import Any\n"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVENTS = pa.record_batch(
    {
        "user.name": pa.array(["ann", "bob", None, "eve"]),
        "bytes": pa.array([1, 20, 300, None], pa.int64()),
        "at": pa.array([NOON] * 4, TIMESTAMP),
        OFFSET: pa.array([10, 20, 30, 40], pa.int64()),
    }
)


def _function(code: str, seconds: float = 5) -> UserFunction:
    found = read_function(FunctionDeclaration("f", CodeFile("f.py", IMPORTS + code), "f", timedelta(seconds=seconds)))
    assert isinstance(found, UserFunction), found
    return found


def _run(code: str, seconds: float = 5, **options: Any) -> Outcome:
    step = Python.model_validate({"type": "python", "function": "f", **options})
    step = step.with_functions({"f": _function(code, seconds)})
    incoming = pa.schema([field for field in EVENTS.schema if field.name != OFFSET])
    assert list(step.check(incoming)) == []
    outcome = step.open(incoming)(EVENTS)
    assert step.may_multiply_events() or outcome.events.column(OFFSET).to_pylist() == sorted(
        set(outcome.events.column(OFFSET).to_pylist())
    )
    assert outcome.events.schema.names == [*step.fields(incoming).names[:3], OFFSET, *step.fields(incoming).names[3:]]
    return outcome


def _values(outcome: Outcome, name: str) -> list[tuple[int, Any]]:
    """Offset and value of each event."""
    return list(zip(outcome.events.column(OFFSET).to_pylist(), outcome.events.column(name).to_pylist(), strict=True))


def _rejects(outcome: Outcome) -> list[tuple[int, str, str]]:
    return [
        (offset, one.code, reason)
        for one in outcome.rejects
        for offset, reason in zip(one.events.column(OFFSET).to_pylist(), pa.array(one.reasons).to_pylist(), strict=True)
    ]


SCORE = "def f(event: dict) -> dict:\n    return {'score': event['bytes'] / 2}"


def test_an_event_gets_the_declared_fields_of_a_dict() -> None:
    outcome = _run(SCORE, fields={"score": "double"})

    assert _values(outcome, "score") == [(10, 0.5), (20, 10.0), (30, 150.0)]
    [(offset, code, reason)] = _rejects(outcome)
    assert (offset, code) == (40, "function-failed")
    assert reason.startswith("f() failed: TypeError: unsupported operand type(s) for /")
    assert reason.endswith("(f.py:6)")


def test_a_dict_has_flat_names_and_values_of_python() -> None:
    code = "def f(event: dict[str, Any]) -> dict:\n    return {'shown': ' '.join(f'{k}={v!r}' for k, v in event.items())}"

    shown = _values(_run(code, fields={"shown": "string"}, read=["user.name", "at"]), "shown")[0][1]

    assert shown.startswith("user.name='ann' at=datetime.datetime(2026, 1, 1, 12, 0, tzinfo=")


def test_none_drops_an_event() -> None:
    outcome = _run("def f(event: dict) -> dict | None:\n    return event if event['user.name'] else None")

    assert outcome.events.column(OFFSET).to_pylist() == [10, 20, 40]
    assert _rejects(outcome) == []


@pytest.mark.parametrize("result", ["list[dict]", "Iterator[dict]", "'list[dict] | None'"])
def test_one_event_becomes_several(result: str) -> None:
    code = f"def f(event: dict) -> {result}:\n    return [{{'n': n}} for n in range((event['bytes'] or 0) % 3)]"

    assert _values(_run(code, fields={"n": "int"}), "n") == [(10, 0), (20, 0), (20, 1)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return 5", "f() returned int, and no event"),
        ("return [event]", "f() returned list, and no event"),
        ("return {'other': 1}", "f() returned the field 'other', which `fields` does not declare"),
        ("return {'score': 'high'}", "f(): the field 'score' is str, and no double: "),
    ],
)
def test_results_of_another_shape_are_dead_letters(body: str, reason: str) -> None:
    code = f"def f(event: dict) -> dict:\n    if event['user.name'] == 'bob':\n        {body}\n    return {{'score': 1}}"

    outcome = _run(code, fields={"score": "double"})

    assert _values(outcome, "score") == [(10, 1.0), (30, 1.0), (40, 1.0)]
    [(offset, _, found)] = _rejects(outcome)
    assert offset == 20
    assert found.startswith(reason)


def test_a_batch_gives_columns() -> None:
    code = "def f(batch: pa.RecordBatch) -> pa.RecordBatch:\n    return pa.record_batch({'twice': pc.multiply(batch[1], 2)})"

    assert _values(_run(code, fields={"twice": "bigint"}), "twice") == [(10, 2), (20, 40), (30, 600), (40, None)]


def test_a_batch_may_have_other_events_by_their_offsets() -> None:
    code = "def f(batch: pa.RecordBatch) -> pa.RecordBatch:\n    return batch.take(pa.array([1, 1, 3]))"

    assert _values(_run(code), "user.name") == [(20, "bob"), (20, "bob"), (40, "eve")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('no')", "f() failed: ValueError: no (f.py:7)"),
        ("return batch.drop_columns(['_offset']).slice(0, 0)", "it returned 0 events for 1 without the column _offset"),
        ("return batch.take(pa.array([0, 0, 0])).drop_columns(['_offset'])", "it returned 3 events for 1 without the column"),
        ("return batch.append_column('x', batch['bytes'])", "it returned the field 'x', which `fields` does not declare"),
        ("return 5", "it returned int, and no record batch"),
    ],
)
def test_a_batch_that_fails_costs_only_its_events(body: str, reason: str) -> None:
    code = (
        f"def f(batch: pa.RecordBatch) -> pa.RecordBatch:\n    if 'bob' in batch['user.name'].to_pylist():\n        {body}\n"
        "    return batch"
    )

    outcome = _run(code)

    assert outcome.events.column(OFFSET).to_pylist() == [10, 30, 40]
    [(offset, _, found)] = _rejects(outcome)
    assert offset == 20
    assert reason in found


def test_a_call_that_hangs_costs_its_event() -> None:
    code = "def f(event: dict) -> dict:\n    while event['user.name'] == 'bob':\n        pass\n    return event"

    outcome = _run(code, 0.05)

    assert outcome.events.column(OFFSET).to_pylist() == [10, 30, 40]
    assert "it took longer than 0.05 s" in _rejects(outcome)[0][2]


PIPELINE = """
functions: {{f: f.py, g: f.py}}
source: {{type: file, path: in.log}}
steps:
  - {{type: python, function: {function}, fields: {fields}}}
"""
CODE = "def f(event: dict) -> dict: ...\ndef g(x: str) -> str: ...\n"


@pytest.mark.parametrize(
    ("function", "fields", "problem"),
    [
        ("f", "{x: double}", None),
        ("ff", "{x: double}", "5:30: unknown-function: there is no function 'ff' | did you mean 'f'?"),
        ("g", "{}", "5:30: bad-function: g() is not a function of one event or of a batch"),
        ("f", "{x: number}", "5:45: invalid-value: 'number' is not a type"),
        ("f", "{_offset: bigint}", "5:51: reserved-field"),
    ],
)
def test_lint(tmp_path: Path, function: str, fields: str, problem: str | None) -> None:
    (tmp_path / "f.py").write_text(CODE)
    (tmp_path / "p.yaml").write_text(PIPELINE.format(function=function, fields=fields).replace("{{", "{"))

    found = [f"{one.line}:{one.column}: {one.code}: {one.message} | {one.hint}" for one in inspect(tmp_path / "p.yaml").problems]

    assert [one[: len(problem or "")] for one in found] == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("event: dict) -> int", "it takes an event and does not say that it returns events"),
        ("event: dict)", "it takes an event and does not say that it returns events"),
        ("event: dict, n: int) -> dict", "a function of whole events takes one argument"),
        ("batch: pa.RecordBatch) -> dict", "it takes a batch and does not return one"),
    ],
)
def test_signatures(signature: str, message: str) -> None:
    found = read_function(FunctionDeclaration("f", CodeFile("f.py", f"{IMPORTS}def f({signature}: ...\n"), "f"))

    assert not isinstance(found, UserFunction)
    assert message in found.message
