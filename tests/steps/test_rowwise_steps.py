"""filter, set, keep, drop, rename, convert: events in, events out, on Arrow."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from etl.api import OFFSET, visible
from etl.steps.convert import Convert
from etl.steps.drop import Drop
from etl.steps.filter import Filter
from etl.steps.keep import Keep
from etl.steps.rename import Rename
from etl.steps.select import Select
from etl.steps.set import Set

EVENTS = pa.record_batch(
    {
        "level": ["error", "info", None],
        "message": ["7", "x", "9"],
        "source.ip": ["10.0.0.1", "::1", None],
        "source.port": pa.array([1, 2, 3], pa.int64()),
        OFFSET: pa.array([0, 10, 20], pa.int64()),
        "_mark": [1, 2, 3],
    }
)
INCOMING = visible(EVENTS.schema.remove(EVENTS.schema.get_field_index("_mark")))


def run(step):
    step = pickle.loads(pickle.dumps(step))
    outcome = step.open(INCOMING)(EVENTS)
    for kept in (OFFSET, "_mark"):
        assert kept in outcome.events.schema.names
    shown = outcome.events.drop_columns([OFFSET, "_mark"])
    assert shown.schema == step.fields(INCOMING)
    return shown.to_pydict(), list(outcome.rejects)


def codes(step):
    return [(finding.code, finding.path, finding.at) for finding in step.check(INCOMING)]


def test_select_gives_exactly_its_fields_in_their_order() -> None:
    events, rejects = run(Select(fields={"ip": "source.ip", "level": "message", "message": "upper(level)"}))

    assert events == {"ip": EVENTS["source.ip"].to_pylist(), "level": ["7", "x", "9"], "message": ["ERROR", "INFO", None]}
    assert rejects == []


def test_select_rejects_events_of_which_an_expression_fails() -> None:
    events, (rejects,) = run(Select(fields={"n": "cast(message as int)"}))

    assert events == {"n": [7, 9]}
    assert rejects.code == "expression-failed"
    assert rejects.events["message"].to_pylist() == ["x"]


def test_select_keeps_the_identity_of_events_and_does_not_copy_them() -> None:
    incoming = EVENTS.schema
    outcome = Select(fields={"ip": "source.ip"}).open(incoming)(EVENTS)

    assert outcome.events.schema.names == ["ip", OFFSET]
    assert outcome.events["ip"].buffers()[1].address == EVENTS["source.ip"].buffers()[1].address


def test_filter_passes_only_what_is_true() -> None:
    events, rejects = run(Filter(where="level <> 'info'"))

    assert events["message"] == ["7"]
    assert rejects == []


def test_filter_hands_on_the_same_batch_when_all_pass() -> None:
    assert Filter(where="message is not null").open(INCOMING)(EVENTS).events is EVENTS


def test_filter_rejects_events_it_cannot_decide() -> None:
    events, (rejects,) = run(Filter(where="cast(message as int) > 7"))

    assert events["message"] == ["9"]
    assert rejects.code == "expression-failed"
    assert rejects.reasons.to_pylist() == ["cannot cast 'x' to int"]
    assert rejects.events.column(OFFSET).to_pylist() == [10]


@pytest.mark.parametrize(
    ("where", "finding"),
    [
        ("lvel = 'x'", ("unknown-field", ("where",), 0)),
        ("level = 'x' and user", ("unknown-field", ("where",), 16)),
        ("source = 'x'", ("unknown-field", ("where",), 0)),
        ("level =", ("bad-expression", ("where",), 6)),
        ("level rlike '('", ("bad-regex", ("where",), 12)),
        ("uper(level) = 'X'", ("unknown-function", ("where",), 0)),
        ("`source.port` + 1", ("not-boolean", ("where",), 0)),
        ("not source.port", ("wrong-type", ("where",), 4)),
        ("count(*) > 1", ("bad-expression", ("where",), 0)),
    ],
)
def test_filter_finds_what_is_wrong_and_where(where: str, finding: tuple) -> None:
    assert codes(Filter(where=where)) == [finding]


def test_set_sees_the_event_as_it_came_in() -> None:
    events, rejects = run(
        Set(fields={"level": "upper(message)", "copy": "level", "source.local": "ip_in(source.ip, '10.0.0.0/8')"})
    )

    assert events["level"] == ["7", "X", "9"]
    assert events["copy"] == ["error", "info", None]
    assert events["source.local"] == [True, False, None]
    assert rejects == []


def test_set_rejects_an_event_that_one_expression_fails_on() -> None:
    events, (rejects,) = run(Set(fields={"n": "cast(message as int)", "r": "10 / (source.port - 3)"}))

    assert events["n"] == [7]
    assert rejects.reasons.to_pylist() == ["cannot cast 'x' to int", "division by zero"]


def test_set_finds_fields_that_cannot_be_together() -> None:
    assert codes(Set(fields={"level.name": "message"})) == [("field-conflict", ("fields", "level.name"), None)]
    assert codes(Set(fields={"source": "message"}))[0] == ("field-conflict", ("fields", "source"), None)
    assert codes(Set(fields={OFFSET: "1"})) == [("reserved-field", ("fields", OFFSET), None)]


def test_set_says_why_it_needs_spark() -> None:
    assert "decimals" in (Set(fields={"x": "source.port * 1.5"}).spark_reason(INCOMING) or "")
    assert Set(fields={"x": "source.port * 1.5D"}).spark_reason(INCOMING) is None


def test_keep_takes_prefixes_in_the_order_named() -> None:
    events, _ = run(Keep(fields=["source", "level"]))

    assert list(events) == ["source.ip", "source.port", "level"]


def test_drop_takes_prefixes() -> None:
    assert list(run(Drop(fields=["source.*"]))[0]) == ["level", "message"]
    assert codes(Drop(fields=["source", "level", "message"])) == [("no-fields", ("fields",), None)]


@pytest.mark.parametrize("step", [Keep(fields=["levl"]), Drop(fields=["levl"])])
def test_unknown_names_get_a_hint(step) -> None:
    (finding,) = step.check(INCOMING)

    assert finding.code == "unknown-field"
    assert finding.hint == "did you mean 'level'?"


def test_rename_moves_fields_and_prefixes_at_once() -> None:
    events, _ = run(Rename(fields={"source": "client.address", "level": "message", "message": "level"}))

    assert list(events) == ["message", "level", "client.address.ip", "client.address.port"]
    assert events["message"] == ["error", "info", None]


def test_rename_finds_collisions() -> None:
    assert codes(Rename(fields={"level": "message"})) == [("field-conflict", ("fields", "level"), None)]
    assert codes(Rename(fields={"level": "source"}))[0][0] == "field-conflict"
    assert codes(Rename(fields={"nope": "x"})) == [("unknown-field", ("fields", "nope"), None)]


def test_convert_rejects_what_it_cannot_convert() -> None:
    events, (rejects,) = run(Convert(fields={"message": "int", "source.port": "string"}))

    assert events["message"] == [7, 9]
    assert events["source.port"] == ["1", "3"]
    assert (rejects.code, rejects.reasons.to_pylist()) == ("convert-failed", ["cannot cast 'x' to int"])


def test_convert_drops_or_keeps_by_option() -> None:
    assert run(Convert(fields={"message": "int"}, on_error="drop")) == (
        {"level": ["error", None], "message": [7, 9], "source.ip": ["10.0.0.1", None], "source.port": [1, 3]},
        [],
    )
    assert run(Convert(fields={"message": "int"}, on_error="keep"))[0]["message"] == [7, None, 9]


@pytest.mark.spark
@pytest.mark.parametrize(
    "step",
    [
        Keep(fields=["source", "level"]),
        Drop(fields=["source.ip"]),
        Rename(fields={"source": "client", "level": "severity"}),
    ],
    ids=lambda step: step.type,
)
def test_spark_does_the_same(spark, step) -> None:
    frame = spark.createDataFrame(pa.Table.from_batches([EVENTS.drop_columns(["_mark"])]))

    theirs = step.apply(frame).toArrow().sort_by(OFFSET)

    mine = step.open(INCOMING)(EVENTS.drop_columns(["_mark"])).events
    assert theirs.select(mine.schema.names).to_pydict() == mine.to_pydict()
