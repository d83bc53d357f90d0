"""Expressions that only Spark computes: an event for which one fails is a dead letter, and others go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from running import Engine, Etl

from connectors.discard import DiscardSink
from etl.api import OFFSET, Outcome, PlanError, Step
from etl.config.loader import load
from etl.delivery.dead_letters import SCHEMA
from etl.expressions.failures import describe_failures
from etl.plan.planner import plan as planned
from etl.plan.render import render_plan
from etl.steps.convert import Convert
from etl.steps.filter import Filter
from etl.steps.select import Select
from etl.steps.set import Set
from etl.steps.spark_values import SparkValues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INCOMING = pa.schema(
    [("a", pa.string()), ("tags", pa.list_(pa.string())), ("n", pa.int32()), ("source.ip", pa.string()), (OFFSET, pa.int64())]
)
EVENTS = pa.Table.from_pydict(
    {
        "a": ["1", "bad", None, "3"],
        "tags": [["x", "y"], ["x"], None, ["p", "q", "r"]],
        "n": [4, 0, None, 13],
        "source.ip": ["10.0.0.1", "::1", None, "10.0.0.2"],
        OFFSET: [0, 1, 2, 3],
    },
    schema=INCOMING,
)


def run(spark: SparkSession, step: Step) -> Outcome:
    """A step over the events, with what Spark computes before it."""
    front, behind = step.parts(INCOMING)
    assert isinstance(front, SparkValues)
    (batch,) = front.apply(spark.createDataFrame(EVENTS)).coalesce(1).toArrow().combine_chunks().to_batches()
    return behind.open(batch.schema)(batch)


FAILING: Mapping[str, tuple[str, list[int], str]] = {
    "a cast": ("cast(soundex(a) as int)", [1], "Spark cannot compute cast(soundex(a) as int) where a is 'bad'"),
    "in a lambda": ("transform(tags, t -> 12 / n)", [1], "Spark cannot compute transform(tags, t -> 12 / n) where n is 0 and"),
    "an element": ("element_at(transform(tags, t -> upper(t)), 2)", [1], "Spark cannot compute element_at(transform("),
    "a part with an Arrow form": ("soundex(cast(cast(a as int) as string))", [1], "cannot cast 'bad' to int"),
    "behind a condition": ("if(soundex(a) = 'B300', 10 / n, 1)", [1], "division by zero"),
    "a date": ("date_format(make_date(2026, n, 1), 'E')", [1, 3], "Spark cannot compute date_format(make_date(2026, n, 1), 'E')"),
    "a raised error": ("if(soundex(a) = 'B300', raise_error(concat('no ', a)), 'x')", [1], "no bad"),
    "a bad pattern": ("regexp_instr(a, concat('(', a))", [0, 1, 3], "Spark cannot compute regexp_instr(a, concat('(', a)) where"),
    "an argument in Python": ("ip_in(element_at(tags, n), '10.0.0.0/8')", [0, 1, 3], "Spark cannot compute ip_in(element_at("),
    "in a branch": ("if(n = 4, false, entropy(soundex(element_at(tags, 3))) >= 0)", [1], "Spark cannot compute if(n = 4, "),
    "twice in Python": ("entropy(soundex(string(entropy(soundex(string(cast(a as int)))))))", [1], "cannot cast 'bad' to int"),
    "a member": ("ip_in(source.ip, '10.0.0.0/8') and cast(soundex(source.ip) as int) = 1", [0, 3], "Spark cannot compute ip_in("),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", FAILING)
def test_an_event_for_which_spark_fails_is_rejected_with_the_reason(spark: SparkSession, name: str) -> None:
    text, bad, reason = FAILING[name]

    outcome = run(spark, Set(fields={"value": text}))

    assert outcome.events[OFFSET].to_pylist() == [number for number in range(4) if number not in bad]
    (rejects,) = outcome.rejects
    assert (rejects.code, rejects.events.schema.names) == ("expression-failed", INCOMING.names)
    assert rejects.events[OFFSET].to_pylist() == bad
    assert rejects.reasons[0].as_py().startswith(reason), rejects.reasons


MAPS: Mapping[str, tuple[str, list[int]]] = {
    "map": ("map(a, 1, if(n = 0, a, 'other'), 2)", [1, 2]),
    "map of values that fail": ("map(concat(a, 'x'), 12 / n)", [1, 2]),
    "map of options": ("from_json(concat('[', a), 'array<int>', map('mode', 'FAILFAST'))", [0, 1, 3]),
    "map_concat": ("map_concat(map('1', n), map(if(n = 4, '2', '1'), n), map('4', 1))", [1, 2, 3]),
    "map_from_arrays": ("map_from_arrays(array(a, if(n = 0, a, 'other')), array(1, 2))", [1, 2]),
    "arrays of two lengths": ("map_from_arrays(tags, array(1, 2))", [1, 3]),
    "map_from_entries": ("map_from_entries(transform(array(a, if(n = 0, a, 'other')), t -> struct(t, 1)))", [1, 2]),
    "a null entry": ("map_from_entries(array(struct(a, 1), if(n = 0, null, struct(a, 2))))", [0, 2, 3]),
    "str_to_map": ("str_to_map(if(n = 0, 'x=1,x=2', concat(a, '=', a)), ',', '=')", [1]),
    "str_to_map of patterns": ("str_to_map(if(n = 0, 'x:1;x:2', concat(a, ':', a)), '[,;]')", [1]),
    "transform_keys": ("transform_keys(map('k', 1, 'l', n), (k, v) -> concat(k, 1 / v))", [1, 2]),
    "a number": ("map(if(n = 0, cast(soundex(a) as int), n) + 1.5, n)", [1, 2]),
    "zeros": ("map(0.0D, 1, n * -0.0D, 2)", [0, 1, 2, 3]),
    "a pattern": ("format_number(n, 2)", []),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", MAPS)
def test_a_map_that_fails_is_rejected_and_does_not_change_the_next_one(spark: SparkSession, name: str) -> None:
    text, bad = MAPS[name]

    outcome = run(spark, Set(fields={"value": text}))

    good = [number for number in range(4) if number not in bad]
    assert outcome.events[OFFSET].to_pylist() == good
    assert [one.events[OFFSET].to_pylist() for one in outcome.rejects] == ([bad] if bad else [])
    alone = spark.createDataFrame(EVENTS.take(pa.array(good, pa.int64()))).selectExpr(f"{text} as value").toArrow()
    assert outcome.events["value"].to_pylist() == alone["value"].to_pylist()


LONG = "the text would have more than 1,048,576 characters"
MANY = "the array would have more than 1,048,576 elements"

LIMITED: Mapping[str, tuple[str, list[int], str]] = {
    "repeat": ("repeat(soundex(a), if(n = 0, 2147483647, n))", [1], LONG),
    "space": ("space(length(soundex(a)) * if(n = 0, 300000, 1))", [1], "Spark cannot compute space("),
    "lpad": ("lpad(soundex(a), if(n = 0, 1000000000, n), 'x')", [1], LONG),
    "rpad": ("rpad(soundex(a), if(n = 0, 1000000000, n))", [1], LONG),
    "replace": ("replace(repeat('x', 3000), 'x', repeat(soundex(a), if(n = 0, 1000, 1)))", [1], "Spark cannot compute"),
    "replace of known texts": (
        f"concat(soundex(a), replace('{'x' * 3000}', 'x', if(n = 0, '{'y' * 1000}', a)))",
        [1],
        LONG,
    ),
    "replace by nothing": ("replace(repeat(soundex(a), if(n = 0, 1000000, 1)), 'x')", [1], "Spark cannot compute"),
    "regexp_replace": ("regexp_replace(repeat('x', 3000), 'x', repeat(soundex(a), if(n = 0, 1000, 1)))", [1], "Spark cannot"),
    "groups": ("regexp_replace(repeat('x', 200000), '(.*)', repeat('$1', if(n = 0, 5000, 2)))", [1], "Spark cannot compute"),
    "array_join": ("array_join(array_repeat('x', 3000), repeat(soundex(a), if(n = 0, 1000, 1)))", [1], "Spark cannot compute"),
    "concat_ws": ("concat_ws(repeat(soundex(a), if(n = 0, 1000, 1)), array_repeat('x', 3000))", [1], "Spark cannot compute"),
    "array_repeat": ("array_repeat(soundex(a), if(n = 0, 1000000000, n))", [1], MANY),
    "array_repeat of long texts": ("array_repeat(repeat(soundex(a), 1000), if(n = 0, 1000000, n))", [1], "Spark cannot compute"),
    "array_insert": ("array_insert(array(soundex(a)), if(n = 0, 1000000000, 1), a)", [1], MANY),
    "sequence": ("transform(sequence(1, if(n = 0, 1000000000, 2)), x -> soundex(a))", [1], MANY),
    "sequence of times": (
        "transform(sequence(timestamp'2026-01-01', timestamp'2026-01-02', if(n = 0, interval 1 microsecond, interval 1 hour)), "
        "x -> soundex(a))",
        [1],
        "Spark cannot compute transform(sequence(",
    ),
    "sequence of days": ("transform(sequence(date'2026-01-01', date'2026-01-03'), x -> soundex(a))", [], ""),
    "printf": ("printf(if(n = 0, '%1000000000s', '%5s'), soundex(a))", [1], "Spark cannot compute printf("),
    "digits": ("format_number(n, if(n = 0, 2000000000, 2))", [1], "Spark cannot compute format_number("),
    "a pattern": (
        "format_number(n, if(n = 0, '#,###.0.0', '#,##0.0'))",
        [1],
        "format_number takes a number of digits, or a pattern",
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", LIMITED)
def test_a_call_that_would_take_all_memory_or_change_the_next_value_is_rejected(spark: SparkSession, name: str) -> None:
    text, bad, reason = LIMITED[name]

    outcome = run(spark, Set(fields={"value": text}))

    assert outcome.events[OFFSET].to_pylist() == [number for number in range(4) if number not in bad]
    assert [one.events[OFFSET].to_pylist() for one in outcome.rejects] == ([bad] if bad else [])
    assert all(one.reasons[0].as_py().startswith(reason) for one in outcome.rejects), outcome.rejects


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("make_interval(n)", "an interval, which events cannot have"),
        ("array(make_ym_interval(n))", "an interval, which events cannot have"),
        ("arrays_zip(tags, tags)", "structs with two members 'tags'"),
        ("array(struct(a, soundex(a) as a))", "structs with two members 'a'"),
    ],
)
def test_a_type_that_events_cannot_have_is_named_before_the_run(spark: SparkSession, text: str, mistake: str) -> None:
    with pytest.raises(PlanError, match=mistake):
        run(spark, Set(fields={"value": text}))


@pytest.mark.spark
def test_elements_of_no_type_are_texts(spark: SparkSession) -> None:
    assert run(spark, Set(fields={"value": "array()"})).events.schema.field("value").type.value_type == pa.string()


@pytest.mark.spark
def test_expressions_that_share_a_part_fail_each_for_itself(spark: SparkSession) -> None:
    part = "cast(soundex(a) as int)"

    outcome = run(spark, Set(fields={"x": part, "y": f"if(n = 0, 1, {part})", "n": f"coalesce(n, {part}) + 1", "c": "upper(a)"}))

    assert outcome.events.select(["a", "n", "x", "y", "c"]).to_pylist() == [
        {"a": "1", "n": 5, "x": 1, "y": 1, "c": "1"},
        {"a": None, "n": None, "x": None, "y": None, "c": None},
        {"a": "3", "n": 14, "x": 3, "y": 3, "c": "3"},
    ]


@pytest.mark.spark
def test_a_filter_drops_in_spark_and_rejects_behind_it(spark: SparkSession) -> None:
    step = Filter(where="cast(soundex(a) as int) > 1 and ip_in(source.ip, '10.0.0.0/8')")
    front, _ = step.parts(INCOMING)

    outcome = run(spark, step)

    assert front.apply(spark.createDataFrame(EVENTS)).count() == 2
    assert outcome.events.to_pylist() == EVENTS.slice(3).to_pylist()
    assert [one.events[OFFSET].to_pylist() for one in outcome.rejects] == [[1]]


@pytest.mark.spark
def test_select_computes_on_arrow_what_spark_does_not_have(spark: SparkSession) -> None:
    outcome = run(spark, Select(fields={"sound": "soundex(a)", "part": "flink_split_index(source.ip, '.', 1)", "n": "n"}))

    assert outcome.events.to_pylist() == [
        {"sound": "1", "part": "0", "n": 4, OFFSET: 0},
        {"sound": "B300", "part": None, "n": 0, OFFSET: 1},
        {"sound": None, "part": None, "n": None, OFFSET: 2},
        {"sound": "3", "part": "0", "n": 13, OFFSET: 3},
    ]


@pytest.mark.spark
@pytest.mark.parametrize("on_error", ["dead_letter", "drop", "keep"])
def test_convert_of_a_type_that_only_spark_casts(spark: SparkSession, on_error: str) -> None:
    step = Convert(fields={"a": "decimal(2,1)", "tags": "array<int>"}, on_error=on_error)
    assert step.spark_reason(INCOMING)

    outcome = run(spark, step)

    assert outcome.events[OFFSET].to_pylist() == ([0, 1, 2, 3] if on_error == "keep" else [2])
    assert [one.code for one in outcome.rejects] == (["convert-failed"] if on_error == "dead_letter" else [])


def test_reasons_name_the_values_and_are_short() -> None:
    rows = EVENTS.slice(1, 1).set_column(0, "a", [["b" * 500]]).to_batches()[0]

    (reason,) = describe_failures("element_at(split(a, 'x'), n)" + " " * 300, rows)

    assert reason.startswith("Spark cannot compute element_at(split(a, 'x'), n) where a is 'bbb")
    assert reason.endswith("and n is 0")
    assert len(reason) < 250


PIPELINE = """
    source: {type: file, path: "{here}/in/*.jsonl"}
    steps:
      - {type: json, fields: {a: string, n: int, at: timestamp}}
      - {type: set, fields: {sound: cast(soundex(a) as int)}}
      - {type: set, fields: {ratio: 12 / n}}
      - {type: filter, where: "soundex(a) < 'B' or raise_error('never here')"}
      MORE
    sink: {type: file, path: "{here}/out.jsonl"}
    dead_letters: {type: file, path: "{here}/dead.jsonl", format: json}
"""
LINES = (("1", 2), ("bad", 3), ("2", 0), ("3", 4))


def write(etl: Etl) -> None:
    (etl.folder / "in").mkdir()
    lines = [json.dumps({"a": a, "n": n, "at": f"2026-11-20T06:00:0{n}Z"}) for a, n in LINES]
    (etl.folder / "in" / "1.jsonl").write_text("\n".join(lines) + "\n")


def read(etl: Etl, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (etl.folder / name).read_text().splitlines()]


@pytest.mark.spark
@pytest.mark.parametrize("windowed", [False, True])
def test_a_run_goes_on_with_the_others(engine: Engine, etl: Etl, windowed: bool) -> None:
    window = "- {type: window, time: at, size: 1m, late: 0s, group_by: [sound], aggregates: {n: count(*), ratio: max(ratio)}}"
    write(etl)

    totals = engine(PIPELINE.replace("MORE", window if windowed else ""), drain=True)

    assert [(row["sound"], row["ratio"]) for row in sorted(read(etl, "out.jsonl"), key=str)] == [(1, 6.0), (3, 3.0)]
    assert sorted((row["at"], row["reason"]) for row in read(etl, "dead.jsonl")) == [
        ("steps[1] set", "Spark cannot compute cast(soundex(a) as int) where a is 'bad'"),
        ("steps[2] set", "division by zero"),
    ]
    assert totals.dead == 2


def test_steps_behind_spark_stay_on_arrow_until_spark_is_needed(etl: Etl) -> None:
    found = list(render_plan(planned(load(etl.pipeline(PIPELINE.replace("MORE", ""))), DiscardSink(), SCHEMA)))

    shown = [line.strip().split(",")[0] for line in found if line.strip().startswith("steps[")]
    assert shown == [
        "steps[0] json: Arrow",
        "steps[1] set: Spark",
        "steps[1] set: Arrow",
        "steps[2] set: Arrow",
        "steps[3] filter: Spark",
        "steps[3] filter: Arrow",
    ]
