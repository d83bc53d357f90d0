"""Joins of tables that declare no columns, in scripts and back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from test_to_sql import compiled

from etl.catalogue import installed
from etl.sql.forms.same_pipelines import same
from etl.sql.script import compile_script
from etl.sql.to_sql import long_form, to_script

TABLES = """
CREATE TABLE a (WATERMARK FOR t AS t - INTERVAL '5' SECOND) WITH ('type' = 'stdin');
CREATE TABLE b (WATERMARK FOR t AS t - INTERVAL '1' SECOND) WITH ('type' = 'file', 'path' = 'b.txt');
CREATE TABLE c (k STRING, v INT) WITH ('type' = 'file', 'path' = 'c.txt');
CREATE TABLE names (PERIOD FOR SYSTEM_TIME) WITH ('type' = 'file', 'path' = 'n.csv', 'key' = 'id');
CREATE TABLE two (PERIOD FOR SYSTEM_TIME) WITH ('type' = 'file', 'path' = 'm.csv', 'key' = '[i, j]');
CREATE TABLE odd (PERIOD FOR SYSTEM_TIME) WITH ('type' = 'file', 'path' = 'n.csv', 'key' = '[i, ''j');
CREATE TABLE typed (id INT, v STRING, PERIOD FOR SYSTEM_TIME) WITH ('type' = 'file', 'path' = 'd.csv');
"""
PAIRS = {"type": "join", "prefix": "right.", "on": {"k": "k"}}


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        (
            "* FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - INTERVAL '1' MINUTE AND a.t AND n > 3",
            [PAIRS | {"time": "t", "late": "5s", "before": "1m", "after": "0ms", "where": "(n > 3)"}],
        ),
        (
            "a.k, `right.y` AS y FROM a JOIN b ON b.source.ip = a.k",
            [PAIRS | {"within": "36500d", "on": {"k": "source.ip"}}, {"type": "select", "fields": {"k": "k", "y": "right.y"}}],
        ),
        (
            "c.k, b.y, b.v FROM c JOIN b ON c.k = b.k",
            [PAIRS | {"within": "36500d"}, {"type": "select", "fields": {"k": "k", "y": "y", "v": "right.v"}}],
        ),
        ("* FROM a LEFT SEMI JOIN b ON a.k = b.k", [PAIRS | {"kind": "semi", "within": "36500d"}]),
        ("* FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)", [PAIRS | {"kind": "semi", "within": "36500d"}]),
        (  # the rows may have a field y, too
            "* FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > a.y)",
            [PAIRS | {"kind": "semi", "within": "36500d", "where": "(right.compared_1 > y)"}],
        ),
        ("* FROM a FULL JOIN b USING (k)", [PAIRS | {"kind": "full", "changelog": True}]),
        ("* FROM a AS l JOIN a AS r ON l.k = r.k", [PAIRS | {"within": "36500d", "left": "a", "right": "a"}]),
        ("* FROM a JOIN b FOR SYSTEM_TIME AS OF a.t ON a.k = b.k", [PAIRS | {"match": "latest", "time": "t", "late": "5s"}]),
        (
            "*, names.mail AS user_mail FROM a JOIN names FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = names.id",
            [{"type": "lookup", "table": "names", "on": "k", "add": {"user_mail": "mail"}, "several": "all", "miss": "drop"}],
        ),
        (
            "* FROM a LEFT JOIN two FOR SYSTEM_TIME AS OF PROCTIME() AS n ON a.q = n.j AND n.i = a.p WHERE n.v > 1",
            [
                {"type": "lookup", "table": "two", "on": ["p", "q"], "add": {"two_v": "v"}, "several": "all", "miss": "keep"}
                | {"replaces": []},
                {"type": "filter", "where": "two_v > 1"},
            ],
        ),
        (  # a look-up does not replace a field that the query names of the rows before it
            "a.x AS old, n.v AS x FROM a JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON a.k = n.id AND a.v > n.v",
            [
                {"type": "lookup", "table": "names", "on": "k", "add": {"names_v": "v"}, "several": "all", "miss": "drop"},
                {"type": "filter", "where": "(v > names_v)"},
                {"type": "select", "fields": {"old": "x", "x": "names_v"}},
            ],
        ),
        (
            "x AS old, n.v AS x FROM a JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON a.k = n.id",
            [
                {"type": "lookup", "table": "names", "on": "k", "add": {"names_v": "v"}, "several": "all", "miss": "drop"},
                {"type": "select", "fields": {"old": "x", "x": "names_v"}},
            ],
        ),
        (
            "a.v AS old FROM a JOIN typed FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = typed.id",
            [
                {"type": "lookup", "table": "typed", "on": "k", "add": {"id": "id", "typed_v": "v"}}
                | {"several": "all", "miss": "drop"},
                {"type": "select", "fields": {"old": "v"}},
            ],
        ),
        (  # a look-up does not put null into the key of rows that have no match
            "* FROM a LEFT JOIN typed FOR SYSTEM_TIME AS OF PROCTIME() ON a.id = typed.id",
            [
                {"type": "lookup", "table": "typed", "on": "id", "add": {"typed_id": "id", "v": "v"}}
                | {"several": "all", "miss": "keep", "replaces": []}
            ],
        ),
        (  # v may be a field of the rows, id is not
            "a.k, v FROM a JOIN typed FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = typed.id",
            [
                {"type": "lookup", "table": "typed", "on": "k", "add": {"id": "id", "v": "v"}}
                | {"several": "all", "miss": "drop", "replaces": ["id"]},
                {"type": "select", "fields": {"k": "k", "v": "v"}},
            ],
        ),
    ],
)  # fmt: skip
def test_joins_of_tables_without_columns(query: str, steps: list[dict[str, Any]]) -> None:
    assert compiled(f"{TABLES}SELECT {query};")["streams"]["result_rows"]["steps"] == steps


@pytest.mark.parametrize("query", ["a.* FROM a", "x.* FROM a AS x WHERE x.k > 1", "a.* FROM a LEFT SEMI JOIN b ON a.k = b.k"])
def test_all_columns_of_the_only_table(query: str) -> None:
    plain = query.replace("a.*", "*").replace("x.*", "*")
    assert compiled(f"{TABLES}SELECT {query};") == compiled(f"{TABLES}SELECT {plain};")


def test_conditions_on_one_side_are_met_before_the_join() -> None:
    streams = compiled(f"{TABLES}SELECT * FROM a JOIN b ON a.k = b.k AND a.x > 1 WHERE b.y = 2;")["streams"]
    assert [stream["steps"][0].get("where") for stream in streams.values()] == ["x > 1", "y = 2", None]


def test_columns_beside_an_unnested_array_are_those_of_the_table() -> None:
    streams = compiled(f"{TABLES}SELECT a.k, u.e FROM a CROSS JOIN UNNEST(a.list) AS u (e);")["streams"]
    assert streams["result_rows"]["steps"][-1] == {"type": "select", "fields": {"k": "k", "e": "e"}}


def test_columns_of_the_same_name_get_numbers_as_in_flink() -> None:
    tables = "".join(
        f"CREATE TABLE {one} (k INT, k0 INT, r ROW<x INT>) WITH ('type' = 'file', 'path' = '{one}.json', 'parser' = 'json');"
        for one in ("p", "q")
    )

    streams = compiled(f"{tables} CREATE VIEW v AS SELECT * FROM p JOIN q ON p.k = q.k; SELECT k1, r0.x AS x FROM v;")["streams"]

    assert list(streams["v"]["steps"][-1]["fields"]) == ["k1", "r0.x"]
    assert streams["v"]["steps"][-1]["fields"]["r0.x"] == "right.r.x"
    assert streams["result_rows"]["steps"][-1]["fields"] == {"k1": "k1", "x": "r0.x"}


def test_a_view_of_versions_is_computed_once() -> None:
    view = "CREATE VIEW v AS SELECT * FROM TABLE(json(TABLE b));\n"
    streams = compiled(f"{TABLES}{view}SELECT * FROM v; SELECT * FROM a JOIN v FOR SYSTEM_TIME AS OF a.t ON a.k = v.k;")[
        "streams"
    ]
    assert [stream["from"] for stream in streams.values()] == ["b", ["a", "v"]]


@pytest.mark.parametrize(
    ("query", "at", "message", "hint"),
    [
        ("* FROM a JOIN b ON k = k2", "k = k2", "of which side 'k' is a column is not known", "ON a.key = b.key"),
        ("* FROM a JOIN b ON a.k = k2", "k2", "of which side 'k2' is a column is not known", "declare the columns"),
        ("b.y FROM a JOIN b ON a.k = b.j", "b.y", "the field of b.y is not known, because a table", "write `right.y`"),
        ("c.v FROM a JOIN c ON a.k = c.k", "c.v", "the field of c.v is not known, because a table", "declare the columns"),
        ("b.k FROM a LEFT JOIN b ON a.k = b.k", "b.k", "the key 'k' is one field for both sides", "without 'b'"),
        ("a.k FROM a RIGHT JOIN b ON a.k = b.k", "a.k", "the key 'k' is one field for both sides", "without 'a'"),
        ("c.zz FROM c JOIN b ON c.k = b.k", "c.zz", "there is no column 'c.zz'", "the columns are"),
        (
            "*, n.v AS v FROM a JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON a.k = n.mail",
            "JOIN names",
            "the key of the table 'names' is id, and here it is mail",
            "declare the table again",
        ),
        ("* FROM a NATURAL JOIN b", "NATURAL", "which columns both sides of a NATURAL JOIN have is not known", "JOIN … ON"),
        ("b.* FROM a JOIN b ON a.k = b.k", "SELECT", "which columns * stands for is not known here", "name the columns"),
        ("a.* FROM a CROSS JOIN UNNEST(a.list) AS u (e)", "SELECT", "which columns * stands for is not known here", "name"),
        ("zz.* FROM a", "SELECT", "which columns * stands for is not known here", "name the columns"),
        ("* REPLACE (1 AS v) FROM a", "SELECT", "which columns * stands for is not known here", "name the columns"),
        ("* REPLACE (1 AS v) FROM c", "*", "* REPLACE is not supported", "name the columns"),
        ("* EXCEPT (password) FROM a", "SELECT", "which columns * stands for is not known here", "name the columns"),
        (
            "n.* FROM a JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON a.k = n.id",
            "JOIN names",
            "which columns n.* stands for is not known here",
            "declare those of 'names'",
        ),
        (
            "a.k, n.v FROM a LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON a.k = n.id AND a.x > 1",
            "JOIN names",
            "a LEFT JOIN of a look-up cannot have the condition a.x > 1",
            "let a CASE",
        ),
        (
            "n.v AS v FROM a JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON a.k = n.id AND a.j = n.id",
            "JOIN names",
            "the key 'id' of the table 'names' is compared twice",
            "the other columns in WHERE",
        ),
        (
            "*, n.v AS v FROM a JOIN odd FOR SYSTEM_TIME AS OF PROCTIME() AS n ON a.k = n.i",
            "JOIN odd",
            "the key of the table 'odd' is [i, 'j, and here it is i",
            "declare the table again",
        ),
        (
            "* FROM (SELECT a.k FROM a JOIN typed FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = typed.v) AS x "
            "JOIN typed FOR SYSTEM_TIME AS OF PROCTIME() AS y ON x.k = y.id",
            "JOIN typed",
            "the key of the table 'typed' is v, and here it is id",
            "declare the table again",
        ),
        (
            "* FROM a JOIN names FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = names.id",
            "JOIN names",
            "the query names no column of 'names', which declares none",
            "name those that are needed",
        ),
    ],
)
def test_what_is_not_known_is_an_error(query: str, at: str, message: str, hint: str) -> None:
    script = f"{TABLES}SELECT {query};"

    errors = compile_script(script, installed()).errors

    assert [str(error).startswith(message) for error in errors] == [True], [str(error) for error in errors]
    assert hint in str(errors[0].hint)
    assert script[errors[0].at :].startswith(at) or at.startswith(("JOIN", "NATURAL", "SELECT"))


def pipeline(step: dict[str, Any], inputs: list[str]) -> dict[str, Any]:
    table = {"type": "file", "path": "n.csv", "key": ["id", "x"] if isinstance(step["on"], list) else "id"}
    return {
        "sources": {name: {"type": "file", "path": f"{name}.txt"} for name in ("a", "b")},
        **({"tables": {"names": table}} if step["type"] == "lookup" else {}),
        "streams": {
            "more": {"from": "b", "steps": [{"type": "json"}]},
            "s": {"from": inputs, "steps": [step, {"type": "filter", "where": "n > 1"}]},
        },
        "sinks": {"o": {"from": ["s", "a", "more"], "type": "console"}},
    }


@pytest.mark.parametrize(
    ("options", "query"),
    [
        (
            {"on": {"k": "source.ip"}, "time": "t", "right_time": "u", "before": "1h", "kind": "left", "where": "x > 1 or y"},
            "SELECT * FROM a\nLEFT JOIN more\nON a.k = more.`source.ip` "
            "AND more.u BETWEEN a.t - INTERVAL '1' HOUR AND a.t AND (x > 1 or y)",
        ),
        (
            {"on": ["k"], "time": "t", "within": "10m", "where": "a != right.a"},
            "ON a.k = more.k AND more.t BETWEEN a.t - INTERVAL '10' MINUTE AND a.t + INTERVAL '10' MINUTE AND a != right.a",
        ),
        ({"on": "k", "within": "1h"}, "SELECT /*+ STATE_TTL('a' = '1h') */ * FROM a\nJOIN more\nON a.k = more.k"),
        ({"on": "k", "within": "1h", "kind": "semi"}, "* FROM a\nLEFT SEMI JOIN more\nON a.k = more.k"),
        ({"on": "k", "kind": "full", "changelog": True}, "SELECT * FROM a\nFULL JOIN more\nON a.k = more.k"),
        ({"on": ["k", "m"], "time": "t", "within": "0s"}, "ON a.k = more.k AND a.m = more.m AND a.t = more.t"),
        ({"on": ["k"], "time": "t", "match": "latest"}, "FROM a\nJOIN more FOR SYSTEM_TIME AS OF a.t\nON a.k = more.k"),
    ],
)  # fmt: skip
def test_joins_are_clauses_of_sql(options: dict[str, Any], query: str) -> None:
    value = pipeline({"type": "join", **options}, ["a", "more"])

    text = to_script(value, installed())

    assert query in text
    assert same(long_form(value), compiled(text))


def test_a_join_of_a_stream_with_itself_and_a_look_up_are_clauses() -> None:
    join = {"type": "join", "left": "a", "right": "a", "on": ["k"], "within": "1d"}
    look_up = {"type": "lookup", "table": "names", "on": ["k", "source.ip"], "add": {"user.name": "n"}, "several": "all"}
    for step, query in (
        (join, "FROM a AS l\nJOIN a AS r\nON l.k = r.k"),
        (
            look_up,
            "SELECT *,\n  n.n AS `user.name`\nFROM a AS t\nLEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n\n"
            "ON t.k = n.id AND t.`source.ip` = n.x",
        ),
    ):
        value = pipeline(step, ["a"])
        text = to_script(value, installed())
        assert query in text
        assert same(long_form(value), compiled(text))


def random_step(draw: random.Random) -> tuple[dict[str, Any], list[str]]:
    """A step with options in any combination, also such as a pipeline cannot have."""
    names, times = ["k", "m", "source.ip", "right", "a", "select"], ["0s", "1500ms", "10m", "36500d", "90s"]
    if draw.random() < 0.3:
        on = draw.choice([draw.choice(names), draw.sample(names, 2)])
        step = {"type": "lookup", "table": "names", "on": on, "add": {draw.choice(names): draw.choice(names)}}
        more = {"several": ["all", "all", "first"], "miss": ["drop", "keep", "dead_letter"], "match": ["exact", "cidr"]}
        return step | {name: draw.choice(values) for name, values in more.items() if draw.random() < 0.6}, ["a"]
    on = draw.choice([draw.choice(names), draw.sample(names, 2), {draw.choice(names): draw.choice(names)}])
    more = {
        "kind": ["inner", "left", "right", "full", "semi", "anti"],
        "time": ["t", "b.t"],
        "right_time": ["t", "u"],
        "before": times,
        "after": times,
        "within": times,
        "late": ["10s", "1m"],
        "where": ["n > 1", "a.x = b.y or k is null", "(n > 1) and right.k like '%or%'", "k = 'it''s -- /* no'"],
        "changelog": [True, False],
        "ttl": times,
        "match": ["latest", "all"],
        "prefix": ["right.", "other_"],
        "limit": [3],
        "shift": ["0s", "1d"],
    }
    inputs = draw.choice([["a", "more"], ["more", "a"], ["a", "b"], ["a"]])
    sides = {"left": "a", "right": "a"} if len(inputs) == 1 else {}
    chosen = {name: draw.choice(values) for name, values in more.items() if draw.random() < 0.3}
    return {"type": "join", "on": on, **chosen, **sides}, inputs


@pytest.mark.slow
def test_random_joins_and_look_ups_come_back() -> None:
    """Law: the script of a pipeline is compiled to the same pipeline, whether it has clauses or functions."""
    draw, clauses = random.Random(), 0
    for _ in range(60):
        state = draw.getstate()
        step, inputs = random_step(draw)
        value = pipeline(step, inputs)

        text = to_script(value, installed())

        assert same(long_form(value), compiled(text)), (state, step, inputs)
        clauses += f"`{step['type']}`(" not in text and f" {step['type']}(" not in text
    assert clauses
