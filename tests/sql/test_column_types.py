"""Types of columns as Flink writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from query_runs import run_query
from running import Engine

from etl.catalogue import installed
from etl.sql.script import compile_script

TYPES = {
    "MAP<STRING, BYTES>": "map<string, binary>",
    "ARRAY<ROW<a INT COMMENT 'x', b VARCHAR(5) NOT NULL>>": "array<struct<a: int, b: string>>",
    "MAP<VARCHAR(3), ROW<n INT>>": "map<string, struct<n: int>>",
    "ARRAY<STRING NOT NULL>": "array<string>",
    "ARRAY<ARRAY<LONG>>": "array<array<bigint>>",
    "STRING ARRAY": "array<string>",
    "VARBINARY(10)": "binary",
    "BINARY(3)": "binary",
    "ARRAY<DECIMAL(10, 2)>": "array<decimal(10, 2)>",
}


@pytest.mark.parametrize("type_", TYPES)
def test_a_type_is_that_of_the_field(type_: str) -> None:
    script = f"CREATE TABLE t (v {type_}) WITH ('type' = 'file', 'path' = 'x', 'format' = 'json'); SELECT v FROM t"

    compiled = compile_script(script, installed())

    assert not compiled.errors
    found = compiled.value["streams"]["t_rows"]["steps"][0]["fields"]["v"]
    assert found.replace(" ", "") == TYPES[type_].replace(" ", "")


@pytest.mark.parametrize("type_", ["MULTISET<INT>", "INT MULTISET", "RAW('a', 'b')", "INTERVAL DAY TO SECOND", "VARIANT"])
def test_types_that_events_do_not_have_are_named(type_: str) -> None:
    script = f"CREATE TABLE t (v {type_}) WITH ('type' = 'file', 'path' = 'x'); SELECT v FROM t"

    [error] = compile_script(script, installed()).errors

    assert (error.code, str(error)) == (
        "bad-type",
        f"there is no type {type_.replace('INT ', '').partition('<')[0].split('(')[0].split()[0]} here",
    )


ROWS = [
    {
        "id": 1,
        "items": [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 1}],
        "m": {"x": {"n": 5}},
        "grid": [[1, 2], [3]],
        "b": "aGk=",
    },
    {"id": 2, "items": [], "b": None},
]
QUERIES: dict[str, list[Any]] = {
    "SELECT id, items[1].sku AS s, m['x'].n AS n, grid[1][2] AS g FROM t": [(1, "a", 5, 2), (2, None, None, None)],
    "SELECT id, sku, qty FROM t CROSS JOIN UNNEST(items) AS i(sku, qty)": [(1, "a", 2), (1, "b", 1)],
    "SELECT id FROM t WHERE items[2].qty = 1": [(1,)],
    "SELECT CAST(b AS STRING) AS text FROM t": [("hi",), (None,)],
}


@pytest.mark.spark
@pytest.mark.slow
def test_values_of_nested_types(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), "utf-8")
    columns = "id INT, items ARRAY<ROW<sku STRING, qty INT>>, m MAP<STRING, ROW<n INT>>, grid ARRAY<ARRAY<INT>>, b BYTES"
    options = "'connector' = 'filesystem', 'format' = 'json', 'path' = "
    script = f"CREATE TABLE t ({columns}) WITH ({options} '{tmp_path}/in.jsonl');"
    for number, query in enumerate(QUERIES):
        script += f"CREATE TABLE o{number} WITH ({options} '{tmp_path}/o{number}.jsonl') AS {query};\n"
    (tmp_path / "job.sql").write_text(script, "utf-8")

    engine.service(tmp_path / "job.sql", once=True, drain=True).finished()

    for number, expected in enumerate(QUERIES.values()):
        rows = [
            tuple(json.loads(line).values())
            for path in [tmp_path / f"o{number}.jsonl"]
            for line in path.read_text("utf-8").splitlines()
        ]
        assert sorted(rows, key=str) == sorted(expected, key=str)


def test_bytes_are_base64_in_the_json_of_flink() -> None:
    script = "CREATE TABLE t (b BYTES) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json'); SELECT b FROM t"

    read, decode = compile_script(script, installed()).value["streams"]["t_rows"]["steps"]

    assert read == {"type": "json", "fields": {"b": "string"}}
    assert decode == {"type": "set", "fields": {"b": "unbase64(b)"}}


def test_an_unknown_member_of_an_element_is_found(tmp_path: Path) -> None:
    table = "CREATE TABLE t (items ARRAY<ROW<sku STRING>>) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json')"

    assert run_query(f"{table}; SELECT items[1].sko AS s FROM t", tmp_path).problems == [
        "there is no field 'flink_element_at(items, 1).sko' here"
    ]


@pytest.mark.spark
@pytest.mark.slow
def test_datagen_gives_the_declared_columns(engine: Engine, tmp_path: Path) -> None:
    columns = "id INT, n BIGINT, name STRING, ok BOOLEAN, d DOUBLE, p DECIMAL(10, 2), t TIMESTAMP(3), u INT"
    options = "'fields.id.kind' = 'sequence', 'fields.id.start' = '5', 'fields.id.end' = '8', 'fields.name.length' = '4'"
    (tmp_path / "job.sql").write_text(
        f"CREATE TABLE g ({columns}) WITH ('connector' = 'datagen', {options}, 'fields.u.min' = '1', 'fields.u.max' = '3');"
        f"CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/o.jsonl', 'format' = 'json') AS SELECT * FROM g",
        "utf-8",
    )

    engine.service(tmp_path / "job.sql", once=True, drain=True).finished()

    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == [5, 6, 7, 8]
    assert all(len(row["name"]) == 4 and 1 <= row["u"] <= 3 and None not in row.values() for row in rows)


@pytest.mark.parametrize(
    ("option", "message"), [("fields.x.kind", "no column 'x' to generate"), ("fields.id.knd", "no option 'knd'")]
)
def test_options_of_datagen_name_columns(option: str, message: str) -> None:
    script = f"CREATE TABLE g (id INT) WITH ('connector' = 'datagen', '{option}' = 'sequence'); SELECT id FROM g"

    assert [str(error) for error in compile_script(script, installed()).errors] == [f"datagen has {message}"]
