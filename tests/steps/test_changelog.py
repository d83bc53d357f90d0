"""Events with a row before and after a change become a changelog."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
from query_runs import run_query

from etl.api import CHANGE, DELETE, INSERT, OFFSET, change_key
from etl.steps.changelog import Changelog

ROW = {"id": 1, "name": "a"}
EVENTS: list[dict[str, Any]] = [
    {"op": "c", "before": None, "after": ROW},
    {"op": "u", "before": ROW, "after": {"id": 1, "name": "b"}},
    {"op": "d", "before": {"id": 1, "name": "b"}, "after": None},
    {"op": "r", "before": None, "after": {"id": 2, "name": None}},
    {"op": "u", "before": None, "after": ROW},
    {"op": "x", "before": ROW, "after": ROW},
    {"op": None, "before": ROW, "after": ROW},
]
TYPES = {"id": pa.int32(), "name": pa.string()}


def batch() -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {"op": pa.array([one["op"] for one in EVENTS], pa.string())}
    for row in ("before", "after"):
        for name, type_ in TYPES.items():
            columns[f"{row}.{name}"] = pa.array([(one[row] or {}).get(name) for one in EVENTS], type_)
    return pa.record_batch(columns | {"topic": pa.array(["t"] * len(EVENTS)), OFFSET: pa.array(range(len(EVENTS)), pa.int64())})


def test_rows_are_added_and_removed_and_events_without_them_are_rejected() -> None:
    step = pickle.loads(pickle.dumps(Changelog(key=("id",))))
    schema = step.fields(batch().schema)

    events, [rejects] = step.open(batch().schema)(batch())

    assert schema.names == ["topic", OFFSET, "id", "name", CHANGE]
    assert change_key(schema) == ("id",)
    assert events.schema.names == schema.names
    assert list(zip(*(events.column(name).to_pylist() for name in (CHANGE, OFFSET, "id", "name")), strict=True)) == [
        (INSERT, 0, 1, "a"),
        (DELETE, 1, 1, "a"),
        (INSERT, 1, 1, "b"),
        (DELETE, 2, 1, "b"),
        (INSERT, 3, 2, None),
    ]
    assert rejects.code == "bad-change"
    assert rejects.events.column(OFFSET).to_pylist() == [4, 5, 6]
    assert rejects.reasons.to_pylist()[0] == "the row 'before' or 'after' that its 'op' needs is missing"


def test_mistakes_are_found() -> None:
    fields = pa.schema([("op", pa.string()), ("before.id", pa.string()), ("after.id", pa.int32()), ("after.name", pa.string())])

    found = {(one.code, one.path) for one in Changelog(op="ops", key=("ids",)).check(fields)}

    assert found == {
        ("unknown-field", ("op",)),
        ("wrong-type", ("before",)),
        ("unknown-field", ("before",)),
        ("unknown-field", ("key", 0)),
    }
    rows = [("before.id", pa.int32()), ("after.id", pa.int32())]
    assert [one.path for one in Changelog().check(pa.schema([("op", pa.string())]))] == [("after",)]
    assert [one.path for one in Changelog().check(pa.schema([("op", pa.list_(pa.string())), *rows]))] == [("op",)]
    assert not list(Changelog().check(pa.schema([("op", pa.null()), *rows])))


def test_a_table_in_the_format_of_debezium_is_a_result_that_changes(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps({'payload': one})}\n" for one in EVENTS[:4]), "utf-8")
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/rows.jsonl', 'format' = 'debezium-json'"
    table = "CREATE TABLE t (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED)"
    table += f" WITH ({options}, 'debezium-json.schema-include' = 'true');"

    rows = run_query(f"{table} SELECT id, name FROM t", tmp_path / "rows", max_events=2)
    counts = run_query(f"{table} SELECT name, count(*) AS n FROM t GROUP BY name", tmp_path / "counts", max_events=2)

    assert not [*rows.problems, *rows.failed, *counts.problems, *counts.failed]
    assert (list(rows.rows), rows.changes) == ([(2, None)], 2)
    assert list(counts.rows) == [(None, 1)]
