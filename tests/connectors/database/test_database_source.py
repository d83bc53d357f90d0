"""The `database` source against SQLite, MariaDB and PostgreSQL: read once, followed, in parts, twice."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from databases import EVERY, Database, events, of, task

from connectors.database import row_ranges
from connectors.database.source import DatabaseSource
from etl.api import OFFSET, Backlog, ComponentError, Limit, Offset, Rejects

FIELDS = {"id": "bigint", "message": "string"}
ALL = Limit(1 << 62)


@pytest.fixture(params=EVERY)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of(request.param, request)


@pytest.fixture
def lite(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of("sqlite", request)


def source(database: Database, **options: Any) -> DatabaseSource:
    return DatabaseSource(**{**database.options, "table": database.table, "fields": FIELDS, **options})


def filled(database: Database, first: int, last: int, **columns: Any) -> None:
    """Write rows with the sink."""
    batch = events(first, last, **columns)
    database.sink(create=True, delivery="at_least_once").open(task(batch)).write(batch)


def read_batch(source: DatabaseSource, at: Offset, limit: Limit = ALL, parallelism: int = 1) -> tuple[list[Any], Offset]:
    """Read a micro-batch; return its ids and end offset."""
    end = json.loads(json.dumps(source.latest(at, limit)))
    found: list[Any] = []
    if end != at:
        for split in source.splits(at, end, parallelism):
            for batch in source.read(split):
                assert isinstance(batch, pa.RecordBatch)
                found += batch.column("id").to_pylist()
    return found, end


def test_a_table_is_read_once(database: Database) -> None:
    filled(database, 0, 10)
    once = source(database)

    found, end = read_batch(once, once.start())

    assert sorted(found) == list(range(10))
    assert once.ended(end)
    assert read_batch(once, end) == ([], end)


def test_a_table_with_an_id_is_read_in_bounded_batches(database: Database) -> None:
    filled(database, 0, 100)
    once = source(database, id="id")
    at, batches = once.start(), []

    while not once.ended(at):
        found, at = read_batch(once, at, Limit(max_bytes=3000, event_bytes=100.0))
        batches.append(found)

    assert batches == [[*range(30)], [*range(30, 60)], [*range(60, 90)], [*range(90, 100)], []]


def test_parts_of_a_range_are_read_in_parallel(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_ranges, "MIN_SPLIT_ROWS", 10)
    filled(database, 1000, 1100)
    once = source(database, id="id")
    end = once.latest({}, ALL)

    splits = once.splits({}, end, 4)

    assert [(split.start, split.end) for split in splits] == [(1000, 1025), (1025, 1050), (1050, 1075), (1075, 1100)]
    assert splits == once.splits({}, end, 4)
    assert read_batch(once, {}, parallelism=4)[0] == list(range(1000, 1100))


def test_a_split_read_again_gives_the_same_events(database: Database) -> None:
    filled(database, 0, 50)
    follow = source(database, id="id", follow=True)
    (split,) = follow.splits({}, follow.latest({}, ALL), 1)
    filled(database, 50, 60)

    first, second = (list(follow.read(split)) for _ in range(2))

    assert first == second
    assert first[0].column(OFFSET).to_pylist() == list(range(50))


def test_new_rows_are_followed_by_id(database: Database) -> None:
    filled(database, 0, 5)
    follow = source(database, id="id", follow=True)
    found, at = read_batch(follow, follow.start())
    assert (found, follow.ended(at)) == ([0, 1, 2, 3, 4], False)
    assert follow.latest(at, ALL) == at

    filled(database, 5, 8)

    assert [follow.backlog(one) for one in ({}, at)] == [Backlog(8), Backlog(3)]
    assert read_batch(follow, at)[0] == [5, 6, 7]


def test_rows_with_the_same_time_are_distinguished_by_id(database: Database) -> None:
    times = pa.array([100, 100, 100, 200], pa.int64()).cast(pa.timestamp("us", "UTC"))
    filled(database, 0, 4, changed=times)
    fields = {**FIELDS, "changed": "timestamp"}
    follow = source(database, fields=fields, id="id", time="changed", follow=True)

    first, at = read_batch(follow, {}, Limit(1 << 40, max_events=2))
    second, at = read_batch(follow, at, Limit(1 << 40, max_events=2))

    assert (first, second) == ([0, 1], [2, 3])
    assert read_batch(follow, at)[0] == []


@pytest.mark.parametrize("limit", [ALL, Limit(1 << 62, max_events=2), Limit(1 << 62, max_events=2, bounded=True)])
def test_rows_without_an_id_are_not_followed(database: Database, limit: Limit) -> None:
    kind = "DATETIME(6)" if database.name in ("mariadb", "mysql8") else "TIMESTAMP"
    database.run(f"CREATE TABLE {{t}} (id BIGINT, message VARCHAR(9), seen {kind})")
    for day in (1, 2, 3):
        database.run(
            f"INSERT INTO {{t}} VALUES (NULL, 'n', '2026-01-0{day} 00:00:00'), ({day - 2}, 'm', '2026-01-0{day} 00:00:00')"
        )
    fields = {**FIELDS, "seen": "timestamp_ntz"}
    following = source(database, fields=fields, follow=True, time="seen", id="id", lag="0s")
    at, found = following.start(), []

    until = following.latest(at, ALL) if limit.bounded else None
    for _ in range(3):
        some, at = read_batch(following, at, Limit(limit.max_bytes, limit.max_events, limit.bounded, until))
        found += some

    assert found == [-1, 0, 1]


def test_an_id_with_nulls_is_an_error(database: Database) -> None:
    database.run("CREATE TABLE {t} (id BIGINT, message VARCHAR(9))")
    database.run("INSERT INTO {t} VALUES (-1, 'a'), (NULL, 'b')")
    by_id, as_a_whole = source(database, id="id"), source(database)

    with pytest.raises(ComponentError, match=r"there are rows whose 'id' is null.*remove id"):
        by_id.latest(by_id.start(), ALL)
    assert sorted(read_batch(as_a_whole, as_a_whole.start())[0], key=str) == [-1, None]


def test_a_changed_row_is_read_again(database: Database) -> None:
    filled(database, 0, 3, version=pa.array([1, 2, 3], pa.int64()))
    follow = source(database, fields={**FIELDS, "version": "bigint"}, id="id", time="version", follow=True)
    _, at = read_batch(follow, {})

    database.run("UPDATE {t} SET version = 4 WHERE id = 1")

    assert read_batch(follow, at)[0] == [1]


def test_rows_younger_than_the_lag_wait(database: Database) -> None:
    now = dt.datetime.now(dt.UTC)
    times = pa.array([now - dt.timedelta(hours=1), now + dt.timedelta(seconds=30)], pa.timestamp("us", "UTC"))
    filled(database, 0, 2, changed=times)
    fields = {**FIELDS, "changed": "timestamp"}

    lagging = source(database, fields=fields, id="id", time="changed", follow=True, lag="5m")
    eager = source(database, fields=fields, id="id", time="changed", follow=True, lag="0s")

    assert read_batch(lagging, {})[0] == [0]
    assert read_batch(eager, {})[0] == [0, 1]


def test_a_source_can_begin_at_the_end(database: Database) -> None:
    filled(database, 0, 5)
    follow = source(database, id="id", follow=True, start="end")
    at = follow.start()

    filled(database, 5, 7)

    assert read_batch(follow, at)[0] == [5, 6]


def test_a_query_is_read_like_a_table(database: Database) -> None:
    filled(database, 0, 10)
    query = f"SELECT id, message FROM {database.table} WHERE id % 2 = 0;"
    by_query = DatabaseSource(**{**database.options, "query": query, "fields": FIELDS, "id": "id"})

    assert list(by_query.check()) == []
    assert list(by_query.probe()) == []
    assert read_batch(by_query, {})[0] == [0, 2, 4, 6, 8]


def test_every_type_is_read(database: Database) -> None:
    time_literal = dt.datetime(2026, 1, 2, 3, 4, 5, 120, dt.UTC)
    given = {
        "flag": (pa.array([True, False, None]), "boolean"),
        "n": (pa.array([-(2**63), 2**63 - 1, None], pa.int64()), "bigint"),
        "ratio": (pa.array([0.1, -1e300, None]), "double"),
        "day": (pa.array([dt.date(1999, 12, 31), dt.date(2026, 1, 1), None]), "date"),
        "seen": (pa.array([time_literal, time_literal, None], pa.timestamp("us", "UTC")), "timestamp"),
        "local_time": (pa.array([time_literal.replace(tzinfo=None), None, None], pa.timestamp("us")), "timestamp_ntz"),
        "source.ip": (pa.array(["", 'a,"b"\n\'\\', None]), "string"),
        "raw": (pa.array([b"\x00\xff", b"", None], pa.binary()), "binary"),
    }
    filled(database, 0, 3, **{name: array for name, (array, _) in given.items()})
    fields = {**FIELDS, **{name: type_ for name, (_, type_) in given.items()}}
    whole = source(database, fields=fields, id="id")

    (split,) = whole.splits({}, whole.latest({}, ALL), 1)
    (batch,) = whole.read(split)

    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.names == [*fields, OFFSET]
    for name, (array, _) in given.items():
        assert batch.column(name).equals(array), name


def test_a_value_of_another_type_is_a_dead_letter(lite: Database) -> None:
    lite.run("CREATE TABLE {t} (id INTEGER, message INTEGER)")
    lite.run("INSERT INTO {t} VALUES (1, 10), (2, 'ten'), (3, 11)")
    numbers = source(lite, fields={"id": "bigint", "message": "int"}, id="id")
    (split,) = numbers.splits({}, numbers.latest({}, ALL), 1)

    rejects, batch = numbers.read(split)

    assert isinstance(rejects, Rejects)
    assert (rejects.code, rejects.events.column("id").to_pylist()) == ("unreadable-value", [2])
    assert "'ten'" in rejects.reasons[0].as_py()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.column("message").to_pylist() == [10, 11]


def test_the_probe_compares_the_table_with_the_fields(database: Database) -> None:
    filled(database, 0, 1)

    assert list(source(database).probe()) == []
    wrong = [source(database, fields={"id": "bigint", "mesage": "string"}), source(database, table="no_such_table")]
    assert [finding.code for one in wrong for finding in one.probe()] == ["unknown-column", "unknown-table"]
    (finding,) = source(database, fields={"id": "bigint", "mesage": "string"}).probe()
    assert finding.hint == "did you mean 'message'?"


def test_an_unknown_table_ends_the_run(database: Database) -> None:
    with pytest.raises(ComponentError, match="no_such_table"):
        source(database, table="no_such_table", id="id").latest({}, ALL)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"table": None}, "one-of-two"),
        ({"query": "SELECT 1"}, "one-of-two"),
        ({"follow": True}, "no-id"),
        ({"id": "message"}, "wrong-type"),
        ({"id": "nope"}, "unknown-field"),
        ({"time": "id"}, "unused-option"),
        ({"fields": {"tags": "array<string>"}}, "unreadable-type"),
        ({"columns": {"nope": "c"}}, "unknown-field"),
    ],
)
def test_options_that_exclude_each_other(lite: Database, options: dict[str, Any], code: str) -> None:
    assert code in [finding.code for finding in source(lite, **options).check()]
