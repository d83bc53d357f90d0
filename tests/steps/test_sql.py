"""One SELECT over events."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from etl.api import OFFSET, TIMESTAMP, ArrowStep
from etl.steps.heartbeats import fence
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
COLUMNS = (
    "time timestamp, `source.ip` string, `source.port` int, user_name string, "
    "tags array<string>, counts map<string,int>, _offset bigint"
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENTS = [
    (NOON, "10.0.0.1", 22, "ann", ["x", "y"], {"k": 1}, 0),
    (NOON, None, None, "bob", [], None, 1),
    (NOON, "10.0.0.3", 80, None, None, {"l": 2}, 2),
]


def sql(query: str) -> Sql:
    return Sql(query=query)


def run(spark: SparkSession, query: str, rows: list[tuple[Any, ...]] = EVENTS) -> list[dict[str, Any]]:
    result = sql(query).apply(spark.createDataFrame(rows, COLUMNS))
    return [row.asDict() for row in result.collect()]


@pytest.mark.spark
def test_columns_of_the_result_are_flat_and_keep_the_offset(spark: SparkSession) -> None:
    found = run(
        spark, "SELECT source.ip AS `client.ip`, upper(user_name) AS name FROM events WHERE source.port > 30 OR user_name = 'bob'"
    )

    assert found == [{"client.ip": None, "name": "BOB", "_offset": 1}, {"client.ip": "10.0.0.3", "name": None, "_offset": 2}]


@pytest.mark.spark
def test_our_own_functions_are_known(spark: SparkSession) -> None:
    found = run(spark, "SELECT user_name FROM events WHERE ip_in(source.ip, '10.0.0.0/31')")

    assert [row["user_name"] for row in found] == ["ann"]


@pytest.mark.spark
def test_a_where_at_the_end_of_a_comment_stays_a_where(spark: SparkSession) -> None:
    found = run(spark, "SELECT user_name -- FROM nowhere\nFROM events e WHERE e.user_name = 'ann' -- or true")

    assert [row["user_name"] for row in found] == ["ann"]


@pytest.mark.spark
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM events",
        "SELECT * EXCEPT (time, tags) FROM events",
        "SELECT source FROM events AS e",
        "SELECT e.source.ip, e.user_name AS u FROM events AS e",
        "SELECT source.ip AS ip, tags FROM events;",
        "SELECT events.source.port AS port, explode(tags) AS tag FROM events",
        "SELECT user_name, tag FROM events LATERAL VIEW explode(tags) t AS tag",
        "SELECT source.*, e.user_name AS `user name` FROM events e",
        "SELECT e.source.* EXCEPT (ip), n.*, time FROM events e LATERAL VIEW explode(tags) n AS tag",
        "SELECT * EXCEPT (Source.Ip, tags), explode(tags) AS tag FROM events",
        "SELECT user_name, k, v FROM events LATERAL VIEW OUTER explode(counts) t AS k, v WHERE user_name IS NOT NULL",
    ],
)
def test_fields_are_those_that_spark_gives(spark: SparkSession, query: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    step = sql(query)

    given = to_arrow_schema(
        step.apply(spark.createDataFrame(EVENTS, COLUMNS)).drop("_offset").schema, timezone="UTC", prefers_large_types=False
    )

    assert list(step.check(SCHEMA)) == []
    message = step.fields(SCHEMA)
    assert message.names == given.names
    assert [str(f.type).replace("element", "item") for f in message] == [str(f.type).replace("element", "item") for f in given]


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


@pytest.mark.parametrize("query", ["SELECT explode(tags) AS t FROM events", "SELECT struct(time) AS s FROM events"])
def test_rows_and_structs_are_made_by_a_query_of_spark(query: str) -> None:
    step = sql(query)

    assert step.parts(SCHEMA) == (step,)


@pytest.mark.spark
def test_one_event_can_become_several(spark: SparkSession) -> None:
    found = run(spark, "SELECT user_name, tag FROM events LATERAL VIEW explode(tags) t AS tag WHERE tag <> 'z'")

    assert [(row["user_name"], row["tag"], row["_offset"]) for row in found] == [("ann", "x", 0), ("ann", "y", 0)]


@pytest.mark.spark
def test_heartbeats_pass_the_where_on_their_way_to_a_window(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions

    folder = tmp_path / "in"
    folder.mkdir()
    batches = [
        [{"_offset": 0, "time": NOON.isoformat(), "user_name": "ann"}],
        [{"time": "2026-03-01T12:01:01Z"}],
        [{"time": "2026-03-01T12:01:02Z"}],
    ]
    for number, batch in enumerate(batches):
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, batch)))
        os.utime(folder / f"{number}.json", (number, number))
    events = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(folder))
    step = sql("SELECT time, upper(user_name) AS name FROM events WHERE user_name = 'ann'")
    found: list[Any] = []

    rows = step.apply(fence(events.withWatermark("time", "0 seconds")))
    result = rows.groupBy(functions.window("time", "1 minute"), "name").agg(functions.count("_offset").alias("n"))
    writer = result.writeStream.outputMode("append").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.foreachBatch(lambda batch, _: found.extend(batch.collect())).trigger(availableNow=True).start()
    query.awaitTermination()

    assert [(row["name"], row["n"]) for row in found if row["n"]] == [("ANN", 1)]


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
    ],
)
def test_findings(query: str, code: str) -> None:
    found = list(sql(query).check(SCHEMA))

    assert found[0].code == code
    assert {f.path for f in found} == {("query",)}


def test_findings_point_at_the_name() -> None:
    (found,) = sql("SELECT user_name,\n  user_nam AS u FROM events").check(SCHEMA)

    assert found.at == 20
