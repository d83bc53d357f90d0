"""One SELECT over events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from etl.api import OFFSET, TIMESTAMP, ArrowStep, SparkStep, Step
from etl.expressions import flatten
from etl.steps.sql import Sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        ("time", TIMESTAMP),
        ("source.ip", pa.string()),
        ("source.port", pa.int32()),
        ("user_name", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int32())),
    ]
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENTS = [
    (NOON, "10.0.0.1", 22, "ann", ["x", "y"], {"k": 1}, 0),
    (NOON, None, None, "bob", [], None, 1),
    (NOON, "10.0.0.3", 80, None, None, {"l": 2}, 2),
]


def sql(query: str) -> Sql:
    return Sql(query=query)


def make_batch(rows: list[tuple[Any, ...]] = EVENTS) -> pa.RecordBatch:
    schema = SCHEMA.append(pa.field(OFFSET, pa.int64()))
    events = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist([{**one, "counts": list((one["counts"] or {}).items()) or None} for one in events], schema)


def parts_of(step: Step, incoming: pa.Schema) -> Iterator[Step]:
    for part in step.parts(incoming):
        yield from (part,) if part is step else parts_of(part, incoming)
        incoming = part.fields(incoming)


def run(step: Sql, batch: pa.RecordBatch, spark: SparkSession | None = None) -> tuple[pa.RecordBatch, list[Any]]:
    """The result, and offsets and reasons of what each part rejects."""
    found: list[Any] = []
    for part in parts_of(step, batch.schema):
        if isinstance(part, ArrowStep):
            batch, rejects = part.open(batch.schema)(batch)
            found += [(one.events.column(OFFSET).to_pylist(), one.reasons) for one in rejects]
        else:
            assert spark is not None
            assert isinstance(part, SparkStep)
            (batch,) = part.apply(spark.createDataFrame(pa.table(batch))).toArrow().combine_chunks().to_batches()
    return batch, found


def run_in_spark(spark: SparkSession, query: str) -> Any:
    """The rows that Spark itself gives, with members of structs as columns."""
    from pyspark.sql import functions as F  # noqa: N812

    events = spark.createDataFrame(pa.table(make_batch()))
    source = F.struct(F.col("`source.ip`").alias("ip"), F.col("`source.port`").alias("port")).alias("source")
    events.select("time", source, "user_name", "tags", "counts").createOrReplaceTempView("events")
    return flatten(spark.sql(query)).toArrow()


QUERIES = [
    "SELECT * FROM events",
    "SELECT * EXCEPT (time, tags) FROM events",
    "SELECT source FROM events AS e",
    "SELECT e.source.ip, e.user_name AS u FROM events AS e",
    "SELECT source.ip AS `client.ip`, upper(user_name) AS name FROM events WHERE source.port > 30 OR user_name = 'bob'",
    "SELECT user_name -- FROM nowhere\nFROM events e WHERE e.user_name = 'ann' -- or true",
    "SELECT source.ip AS ip, tags FROM events;",
    "SELECT events.source.port AS port, explode(tags) AS tag FROM events",
    "SELECT user_name, tag FROM events LATERAL VIEW explode(tags) t AS tag",
    "SELECT user_name, T.Tag AS t, t.* FROM events LATERAL VIEW OUTER explode(tags) t AS tag WHERE tag IS NULL OR tag <> 'x'",
    "SELECT col, key, value FROM events LATERAL VIEW explode(tags) l LATERAL VIEW OUTER explode(counts) n",
    "SELECT t.tag, t.k FROM events LATERAL VIEW explode(tags) t AS tag LATERAL VIEW OUTER explode(counts) t AS k, v",
    "SELECT t.tags, e.tags AS all FROM events e LATERAL VIEW explode(e.tags) t AS tags WHERE t.tags = 'y'",
    "SELECT source.*, e.user_name AS `user name` FROM events e",
    "SELECT e.source.* EXCEPT (ip), n.*, time FROM events e LATERAL VIEW explode(tags) n AS tag",
    "SELECT * EXCEPT (Source.Ip, tags), explode(tags) AS tag FROM events",
    "SELECT user_name, k, v FROM events LATERAL VIEW OUTER explode(counts) t AS k, v WHERE user_name IS NOT NULL",
    "SELECT user_name, posexplode(tags) AS (`at`, tag) FROM events",
    "SELECT user_name, posexplode_outer(counts) AS (at, k, v) FROM events",
    "SELECT p, tag, upper(tag) AS up FROM events LATERAL VIEW OUTER posexplode(tags) t AS p, tag",
    "SELECT stack(2, user_name, source.port, 'last', null) AS (a, b) FROM events",
    "SELECT n, a FROM events LATERAL VIEW stack(3, 1, 'x', 2, user_name) s AS n, a WHERE n IS NULL OR n < 3",
]
"""Queries that need Spark for nothing."""

SPARK_QUERIES = [
    "SELECT struct(user_name, source.port AS p) AS s, from_csv('1,x', 'a int, b string') AS c FROM events",
    "SELECT r.tag AS tag, r FROM events LATERAL VIEW explode(transform(tags, x -> struct(x AS tag, 1 AS n))) v AS r",
    "SELECT v.r.tag, tag AS other FROM events LATERAL VIEW explode(transform(tags, x -> struct(x AS tag))) v AS r "
    "LATERAL VIEW inline(transform(tags, x -> struct(upper(x) AS tag, user_name))) w AS tag, u",
    "SELECT soundex(x) AS s, y FROM events LATERAL VIEW json_tuple(concat('{\"a\":\"', user_name, '\"}'), 'a', 'b') j AS x, y",
    "SELECT explode_outer(filter(tags, t -> t > 'x')) AS tag, to_json(named_struct('ip', source.ip)) AS j FROM events",
]


def assert_equal_to_spark(spark: SparkSession, query: str) -> None:
    expected = run_in_spark(spark, query)

    assert list(sql(query).check(SCHEMA)) == []
    known = sql(query).fields(SCHEMA)
    found, rejects = run(sql(query), make_batch(), spark)
    found = found.drop_columns([OFFSET])

    assert rejects == []
    assert known.names == found.schema.names == expected.schema.names
    types = [[str(field.type).replace("element", "item") for field in one] for one in (known, found.schema, expected.schema)]
    assert types[0] == types[1] == types[2]
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_the_result_is_that_of_spark(spark: SparkSession, query: str) -> None:
    assert all(isinstance(part, ArrowStep) for part in parts_of(sql(query), SCHEMA))
    assert_equal_to_spark(spark, query)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("query", SPARK_QUERIES)
def test_the_result_of_what_spark_computes_is_the_same(spark: SparkSession, query: str) -> None:
    assert_equal_to_spark(spark, query)


def test_our_own_functions_are_known() -> None:
    found, _ = run(sql("SELECT user_name FROM events WHERE ip_in(source.ip, '10.0.0.0/31')"), make_batch())

    assert found.column("user_name").to_pylist() == ["ann"]


@pytest.mark.parametrize(
    ("query", "rows", "reasons"),
    [
        ("SELECT cast(user_name AS int) AS n FROM events", [{"n": 7}], ["int"]),
        ("SELECT e.user_name AS u, 1 / e.source.port p FROM events e", [{"u": "7", "p": 0.5}], ["division by zero"]),
        ("SELECT user_name FROM events WHERE 4 / source.port > 1 -- or true", [{"user_name": "7"}], ["division by zero"]),
        ("SELECT * EXCEPT (time, tags, counts, user_name), CASE WHEN true THEN 1 END AS one, source AS s FROM events",
         [{"source.ip": "a", "source.port": port, "one": 1, "s.ip": "a", "s.port": port} for port in (2, 0)], []),
        ("SELECT source.* EXCEPT (port), user_name AS `user name` FROM events",
         [{"ip": "a", "user name": name} for name in "7x"], []),
        ("SELECT * EXCEPT (source.ip, time, tags, counts) FROM events WHERE user_name <> 'it''s'",
         [{"source.port": 2, "user_name": "7"}, {"source.port": 0, "user_name": "x"}], []),
    ],
)  # fmt: skip
def test_an_event_that_cannot_be_computed_is_a_dead_letter(query: str, rows: list[Any], reasons: list[str]) -> None:
    events = [{"user_name": "7", "source.ip": "a", "source.port": 2, OFFSET: 0}]
    events.append({"user_name": "x", "source.ip": "a", "source.port": 0, OFFSET: 1})
    batch = pa.RecordBatch.from_pylist(events, SCHEMA.append(pa.field(OFFSET, pa.int64())))
    found = []

    for part in sql(query).parts(batch.schema):
        assert isinstance(part, ArrowStep)
        batch, rejects = part.open(batch.schema)(batch)
        found += [(one.events.column(OFFSET).to_pylist(), one.reasons) for one in rejects]

    assert batch.drop_columns([OFFSET]).to_pylist() == rows
    assert [numbers for numbers, _ in found] == [[1]] * len(reasons)
    assert all(reason in str(given[0]) for reason, (_, given) in zip(reasons, found, strict=True))


EXPLODED = [
    ("SELECT user_name, n FROM events LATERAL VIEW explode(array(1 / source.port, 2)) t AS n", [("7", 0.5), ("7", 2.0)], "zero"),
    ("SELECT n FROM events LATERAL VIEW explode(array(0, 2)) t AS n WHERE 1 / n > source.port - 2", [(2,), (2,)], "zero"),
    ("SELECT cast(n AS int) AS i FROM events LATERAL VIEW explode(array(user_name, '8')) t AS n", [(7,), (8,), (8,)], "int"),
    ("SELECT stack(2, cast(user_name AS int), 5) AS n FROM events", [(7,), (5,)], "int"),
]


@pytest.mark.parametrize(("query", "rows", "reason"), EXPLODED)
def test_rows_that_cannot_be_computed_are_dead_letters(query: str, rows: list[Any], reason: str) -> None:
    batch = make_batch([(NOON, "a", 2, "7", None, None, 0), (NOON, "a", 0, "x", None, None, 1)])

    found, rejects = run(sql(query), batch)

    assert [tuple(row.values())[:-1] for row in found.to_pylist()] == rows
    assert rejects
    assert all(reason in str(one) for _, reasons in rejects for one in reasons)


def test_rows_keep_the_offset_of_their_event() -> None:
    found, _ = run(sql("SELECT user_name, tag FROM events LATERAL VIEW explode(tags) t AS tag WHERE tag <> 'z'"), make_batch())

    rows = zip(*(found.column(name).to_pylist() for name in ("user_name", "tag", OFFSET)), strict=True)
    assert list(rows) == [("ann", "x", 0), ("ann", "y", 0)]


def test_a_condition_on_the_event_alone_comes_before_its_rows() -> None:
    step = sql("SELECT tag FROM events LATERAL VIEW explode(array(1 / source.port)) t AS tag WHERE source.port > 0")

    found, rejects = run(step, make_batch([(NOON, "a", 2, "7", None, None, 0), (NOON, "a", 0, "x", None, None, 1)]))

    assert (found.column("tag").to_pylist(), rejects) == ([0.5], [])


def test_events_with_more_rows_than_fit_into_memory_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.steps.event_copies.MAX_COPIED_BYTES", 2000)
    batch = make_batch([(NOON, "a", 1, "x" * 900, ["t"] * 5, None, 0), (NOON, "a", 1, "y", ["t"], None, 1)])

    found, rejects = run(sql("SELECT user_name, explode(tags) AS tag FROM events"), batch)

    assert found.column("user_name").to_pylist() == ["y"]
    assert [offsets for offsets, _ in rejects] == [[0]]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT", "bad-sql"),
        ("SELECT 1 AS one", "bad-sql"),
        ("SELECT * FROM event", "bad-sql"),
        ('SELECT user_name AS "u" FROM events', "bad-sql"),
        ("SELECT e.user_name FROM events AS 'e'", "bad-sql"),
        ('SELECT events."user_name" FROM events', "bad-sql"),
        ('SELECT * EXCEPT (time, "user_name") FROM events', "bad-sql"),
        ("SELECT * FROM events; SELECT * FROM events", "bad-sql"),
        ("DROP TABLE events", "bad-sql"),
        ("INSERT INTO t SELECT * FROM events", "bad-sql"),
        ("CREATE TABLE t AS SELECT * FROM events", "bad-sql"),
        ("FROM events SELECT *", "bad-sql"),
        ("SELECT * FROM events |> WHERE true", "bad-sql"),
        ("SELECT * FROM json.`/etc/passwd`", "bad-sql"),
        ("SELECT * FROM `/etc/passwd`", "bad-sql"),
        ("SELECT * FROM other.events", "bad-sql"),
        ("SELECT * FROM range(5)", "bad-sql"),
        ("SELECT * FROM identifier('events')", "bad-sql"),
        ("SELECT * FROM events TABLESAMPLE (10 PERCENT)", "bad-sql"),
        ("SELECT * FROM events UNION ALL SELECT * FROM other", "bad-sql"),
        ("SELECT * FROM (SELECT * FROM text.`/etc/passwd`)", "bad-sql"),
        ("SELECT (SELECT first(value) FROM text.`/etc/passwd`) AS x FROM events", "bad-sql"),
        ("SELECT user_name FROM events WHERE user_name IN (SELECT value FROM text.`/etc/passwd`)", "bad-sql"),
        ("SELECT user_name FROM events WHERE EXISTS (SELECT 1 FROM other)", "bad-sql"),
        ("SELECT reflect('java.lang.System', 'exit', 1) AS x FROM events", "bad-sql"),
        ("SELECT java_method('java.lang.System', 'exit', 1) AS x FROM events", "bad-sql"),
        ("SELECT TRANSFORM(user_name) USING 'cat' FROM events", "bad-sql"),
        ("WITH t AS (SELECT * FROM other) SELECT * FROM events", "stateful-sql"),
        ("SELECT * FROM events, other", "stateful-sql"),
        ("SELECT * FROM events JOIN other USING (time)", "stateful-sql"),
        ("SELECT DISTINCT user_name FROM events", "stateful-sql"),
        ("SELECT user_name FROM events GROUP BY user_name", "stateful-sql"),
        ("SELECT user_name FROM events ORDER BY user_name", "stateful-sql"),
        ("SELECT user_name FROM events LIMIT 3", "stateful-sql"),
        ("SELECT count(*) AS n FROM events", "stateful-sql"),
        ("SELECT try_sum(source.port) AS n FROM events", "stateful-sql"),
        ("SELECT row_number() OVER (ORDER BY time) AS n FROM events", "stateful-sql"),
        ("SELECT user_name FROM events LATERAL VIEW upper(user_name) t AS x", "bad-sql"),
        ("SELECT upper(user_name) FROM events", "unnamed-column"),
        ("SELECT user_nam FROM events", "unknown-field"),
        ("SELECT user_name FROM events WHERE source.prt = 3", "unknown-field"),
        ("SELECT sauce.* FROM events", "unknown-field"),
        ("SELECT * EXCEPT (user_nam) FROM events", "unknown-field"),
        ("SELECT * EXCEPT (source.prt) FROM events", "unknown-field"),
        ("SELECT named_struct('a', user_name).* FROM events", "bad-sql"),
        ("SELECT user_name AS `_offset` FROM events", "reserved-field"),
        ("SELECT explode(user_name) AS x FROM events", "wrong-type"),
        ('SELECT posexplode(tags) AS ("p", tag) FROM events', "bad-sql"),
        ("SELECT tag FROM events LATERAL VIEW posexplode(tags) t AS 'p', tag", "bad-sql"),
        ("SELECT explode(tags, time) AS tag FROM events", "wrong-arguments"),
        ("SELECT stack(source.port, 1) AS tag FROM events", "wrong-arguments"),
        ("SELECT json_tuple(user_name) AS tag FROM events", "wrong-arguments"),
        ("SELECT stack(1, user_name, source.port), 1 AS one FROM events", "unnamed-column"),
        ("SELECT stack(2, user_name, source.port) AS x FROM events", "wrong-type"),
        ("SELECT inline(tags) AS (a, b) FROM events", "wrong-type"),
        ("SELECT posexplode(tags) AS tag FROM events", "wrong-columns"),
        ("SELECT explode(tags) AS (p, tag) FROM events", "wrong-columns"),
        ("SELECT k FROM events LATERAL VIEW explode(counts) t AS k", "wrong-columns"),
        ("SELECT explode(tags) AS a, explode(tags) AS b FROM events", "bad-sql"),
        ("SELECT upper(explode(tags)) AS a FROM events", "bad-expression"),
        ("SELECT tags FROM events LATERAL VIEW explode(tags) t AS tags", "ambiguous-column"),
        ("SELECT *, r FROM events LATERAL VIEW explode(array(struct(user_name AS a, 1 AS b))) t AS r", "duplicate-column"),
        ("SELECT r.b FROM events LATERAL VIEW explode(array(struct(user_name AS a))) t AS r", "unknown-field"),
        ("SELECT user_name::struct<a:int,b:int> AS x FROM events", "bad-sql"),
    ],
)
def test_findings(query: str, code: str) -> None:
    found = list(sql(query).check(SCHEMA))

    assert found[0].code == code
    assert {f.path for f in found} == {("query",)}


def test_findings_point_at_the_name() -> None:
    (found,) = sql("SELECT user_name,\n  user_nam AS u FROM events").check(SCHEMA)

    assert found.at == 20
