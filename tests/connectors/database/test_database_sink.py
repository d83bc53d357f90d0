"""The `database` sink against SQLite, MariaDB and PostgreSQL: modes, types, bad rows, checks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from databases import EVERY, Database, events, of, task

from connectors.database.sink import DatabaseSink
from etl.api import CHANGE, DELETE, INSERT, OFFSET, UPDATE_AFTER, UPDATE_BEFORE, ComponentError, Rejects

HOSTILE = [
    "plain",
    "",
    "it's",
    'say "hi"',
    "back\\slash",
    "\\'; DROP TABLE x; --",
    "tab\tnew\nline\rend",
    "\\.",
    "a\n\\.\nb",
    "\\N",
    "NULL",
    "%s %(x)s {0}",
    "grüß 漢字 🦊",
    "\u2028\x1a\x7f",
    None,
]


@pytest.fixture(params=EVERY)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of(request.param, request)


@pytest.fixture(params=["mariadb", "postgres"])
def strict(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database that checks values."""
    yield from of(request.param, request)


@pytest.fixture(params=["mariadb"])
def mysql(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of(request.param, request)


@pytest.fixture
def lite(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of("sqlite", request)


def written(sink: DatabaseSink, *batches: pa.RecordBatch) -> list[Rejects]:
    """Write a split and return the rejects."""
    writer = sink.open(task(batches[0]))
    refused = [rejects for batch in batches for rejects in writer.write(batch).rejected]
    writer.close()
    return refused


def texts(values: list[Any]) -> pa.RecordBatch:
    numbers = pa.array(range(len(values)), pa.int64())
    return pa.RecordBatch.from_arrays([numbers, pa.array(values, pa.string()), numbers], names=["id", "message", OFFSET])


def test_no_text_is_executed_as_sql(database: Database) -> None:
    refused = written(database.sink(create=True), texts(HOSTILE))

    assert not refused
    assert [row[0] for row in database.run("SELECT message FROM {t} ORDER BY id")] == HOSTILE


def test_changes_insert_update_and_delete_rows_by_their_key(database: Database) -> None:
    database.run("CREATE TABLE {t} (id BIGINT, part VARCHAR(9), n BIGINT, UNIQUE (id, part))")
    sink = database.sink(mode="upsert", key=["id", "part"])

    first = changes(0, (1, "a", 10, INSERT), (2, "a", 20, INSERT), (1, "a", 10, UPDATE_BEFORE), (1, "a", 11, UPDATE_AFTER))
    then = changes(4, (2, "a", 20, DELETE), (1, "a", 11, DELETE), (1, "a", 12, INSERT), (3, "it's", 0, DELETE))
    written(sink, first)
    assert database.run("SELECT id, n FROM {t} ORDER BY id") == [(1, 11), (2, 20)]

    written(sink, first, then)
    assert database.run("SELECT id, n FROM {t} ORDER BY id") == [(1, 12)]


def changes(offset: int, *rows: tuple[int, str, int, int]) -> pa.RecordBatch:
    """Events of a changelog."""
    ids, parts, values, kinds = zip(*rows, strict=True)
    columns = {"id": pa.array(ids), "part": pa.array(parts), "n": pa.array(values), CHANGE: pa.array(kinds, pa.int8())}
    return pa.record_batch({**columns, OFFSET: pa.array(range(offset, offset + len(rows)), pa.int64())})


def test_every_type_is_read_back_unchanged(database: Database) -> None:
    time_literal = dt.datetime(2026, 1, 2, 3, 4, 5, 120)
    given = {
        "flag": pa.array([True, None]),
        "small": pa.array([-128, 127], pa.int8()),
        "big": pa.array([-(2**63), 2**63 - 1], pa.int64()),
        "ratio": pa.array([0.1, -1e300]),
        "amount": pa.array([Decimal("12345678901234567890.12"), None], pa.decimal128(22, 2)),
        "day": pa.array([dt.date(1999, 12, 31), None]),
        "local_time": pa.array([time_literal, None], pa.timestamp("us")),
        "source.ip": pa.array(["::1", None]),
        "raw": pa.array([b"\x00\xff'\\", b""], pa.binary()),
        "tags": pa.array([["a'b", 'c"d'], None], pa.list_(pa.string())),
    }
    written(database.sink(create=True), events(0, 2, **given))

    found = database.run(f"SELECT {', '.join(name.replace('.', '_') for name in given)} FROM {{t}} ORDER BY id")
    assert [plain(value) for value in found[0]] == [
        True, -128, -(2**63), 0.1, "12345678901234567890.12", "1999-12-31", "2026-01-02 03:04:05.000120", "::1", b"\x00\xff'\\",
        ["a'b", 'c"d'],
    ]  # fmt: skip
    assert [plain(value) for value in found[1]] == [None, 127, 2**63 - 1, -1e300, None, None, None, None, b"", None]


def plain(value: Any) -> Any:
    """Convert a driver's value to the type that the other drivers return."""
    import json

    if isinstance(value, str) and value.startswith("["):
        return json.loads(value)
    return str(value) if isinstance(value, Decimal | dt.date | dt.datetime) else value


def test_times_are_stored_to_the_microsecond_in_utc(database: Database) -> None:
    time_literal = dt.datetime(2026, 1, 2, 3, 4, 5, 120, dt.UTC)
    written(database.sink(create=True), events(0, 1, seen=pa.array([time_literal], pa.timestamp("us", "UTC"))))

    found = str(database.run("SELECT seen FROM {t}")[0][0])
    assert found.startswith("2026-01-02 03:04:05.000120")


@pytest.mark.parametrize(
    ("mode", "left"),
    [("insert", ["old", "kept"]), ("upsert", ["second", "kept"]), ("ignore", ["old", "kept"]), ("replace", ["second", None])],
)
def test_a_row_with_a_key_that_exists(database: Database, mode: str, left: list[str | None]) -> None:
    database.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY, message VARCHAR(50), other VARCHAR(50))")
    database.run("INSERT INTO {t} VALUES (1, 'old', 'kept')")
    rows = texts(["new", "first", "second"]).set_column(0, "id", pa.array([5, 1, 1]))

    refused = written(database.sink(mode=mode, key=["id"]), rows)

    assert list(database.run("SELECT message, other FROM {t} WHERE id = 1")[0]) == left
    assert database.run("SELECT message FROM {t} WHERE id = 5") == [("new",)]
    assert [r.events.column("id").to_pylist() for r in refused] == ([[1, 1]] if mode == "insert" else [])


def test_columns_are_named_by_the_map(database: Database) -> None:
    database.run("CREATE TABLE {t} (number INTEGER, text VARCHAR(50))")

    written(database.sink(columns={"message": "text", "id": "number"}), events(7, 8))

    assert database.run("SELECT number, text FROM {t}") == [(7, "event 7")]


def test_bad_rows_are_found_among_good_ones(strict: Database) -> None:
    strict.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY, message VARCHAR(20) NOT NULL)")
    values = [f"fine {n}" for n in range(2000)]
    values[17], values[18], values[1999] = "x" * 21, None, "y" * 500

    refused = written(strict.sink(), texts(values))

    bad = {n: r for one in refused for n, r in zip(one.events.column("id").to_pylist(), one.reasons.to_pylist(), strict=True)}
    assert sorted(bad) == [17, 18, 1999]
    assert "too long" in bad[17]
    assert "null" in bad[18]
    assert {one.code for one in refused} == {"database-rejected"}
    assert strict.run("SELECT count(*), max(id) FROM {t}") == [(1997, 1998)]


def test_a_column_of_another_type_accepts_the_values_that_fit(strict: Database) -> None:
    strict.run("CREATE TABLE {t} (id INTEGER, message INTEGER)")

    refused = written(strict.sink(), texts(["12", "twelve", "13"]))

    assert [one.events.column("message").to_pylist() for one in refused] == [["twelve"]]
    assert "twelve" in refused[0].reasons[0].as_py()
    assert strict.run("SELECT message FROM {t} ORDER BY id") == [(12,), (13,)]


def test_a_batch_of_bad_rows_only(database: Database) -> None:
    database.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY, message VARCHAR(20) NOT NULL CHECK (message <> 'event 1'))")

    refused = written(database.sink(), texts([None] * 40))

    assert sum(one.events.num_rows for one in refused) == 40
    assert database.run("SELECT count(*) FROM {t}") == [(0,)]


@pytest.mark.slow
def test_a_row_larger_than_the_server_accepts(mysql: Database) -> None:
    max_bytes = mysql.run("SELECT @@max_allowed_packet")[0][0]

    refused = written(mysql.sink(create=True), texts(["small", "x" * (max_bytes + 1), "after"]))

    assert [one.events.column("id").to_pylist() for one in refused] == [[1]]
    assert "max_allowed_packet" in refused[0].reasons[0].as_py()
    assert mysql.run("SELECT message FROM {t} ORDER BY id") == [("small",), ("after",)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"table": "no_such_table"}, "there is no table 'no_such_table'"),
        ({"columns": {"id": "nummer"}}, "has no column 'nummer' for 'id'"),
        ({"mode": "upsert", "key": ["message"]}, "no unique index on message"),
    ],
)
def test_a_missing_column_ends_the_run(database: Database, options: dict[str, Any], expected: str) -> None:
    database.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY, message VARCHAR(20))")
    sink = database.sink(**options)

    with pytest.raises(ComponentError, match=expected):
        sink.open(task(events(0, 1))).write(events(0, 1))
    found = list(sink.probe(events(0, 1).schema))
    assert any(expected in finding.message for finding in found)
    assert database.run("SELECT count(*) FROM {t}") == [(0,)]


def test_a_suitable_table_passes_the_probe_which_writes_nothing(database: Database) -> None:
    database.run("CREATE TABLE {t} (id BIGINT, message VARCHAR(20))")
    before = tables(database)

    assert list(database.sink().probe(events(0, 1).schema)) == []
    assert list(database.sink(table="not_yet", create=True).probe(events(0, 1).schema)) == []
    assert tables(database) == before


def tables(database: Database) -> int:
    names = "sqlite_master" if "sqlite" in database.options["url"] else "information_schema.tables"
    return database.run(f"SELECT count(*) FROM {names}")[0][0]


def test_a_column_of_another_type_is_a_warning_of_the_probe(strict: Database) -> None:
    strict.run("CREATE TABLE {t} (id TIMESTAMP, message VARCHAR(20))")

    (finding,) = strict.sink().probe(events(0, 1).schema)

    assert (finding.code, finding.severity) == ("column-type", "warning")


def test_a_wrong_password_ends_the_run_and_is_not_shown(strict: Database) -> None:
    strict.run("CREATE TABLE {t} (id INTEGER, message VARCHAR(20))")
    sink = strict.sink(password="hunter2")

    with pytest.raises(ComponentError, match="check user and password") as caught:
        sink.open(task(events(0, 1))).write(events(0, 1))
    (finding,) = sink.probe(events(0, 1).schema)

    assert finding.code == "not-ready"
    assert "hunter2" not in f"{caught.value} {finding}"


def test_a_missing_server_is_a_temporary_error(strict: Database) -> None:
    scheme = strict.options["url"].partition(":")[0]
    sink = strict.sink(url=f"{scheme}://127.0.0.1:1/sluice")

    with pytest.raises(OSError, match=r"127\.0\.0\.1:1: .*refused"):
        sink.open(task(events(0, 1))).write(events(0, 1))
    assert [finding.code for finding in sink.probe(events(0, 1).schema)] == ["unreachable"]


@pytest.mark.slow
def test_tables_without_transactions_are_errors_unless_the_guarantee_is_at_least_once(mysql: Database) -> None:
    mysql.run("CREATE TABLE {t} (id INTEGER, message VARCHAR(20)) ENGINE=MyISAM")
    schema = events(0, 1).schema

    with pytest.raises(ComponentError, match="MyISAM, which has no transactions"):
        written(mysql.sink(), events(0, 1))
    assert [finding.code for finding in mysql.sink().probe(schema)] == ["no-transactions"]
    relaxed = mysql.sink(delivery="at_least_once")
    assert (relaxed.guaranteed(), list(relaxed.probe(schema))) == ("at least once", [])
    written(relaxed, events(0, 3))
    assert mysql.run("SELECT count(*) FROM {t}") == [(3,)]


def test_no_ledger_is_created_without_exactly_once(database: Database) -> None:
    written(database.sink(create=True, delivery="at_least_once"), events(0, 3))

    with pytest.raises(ComponentError):
        database.run("SELECT * FROM {l}")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"key": ["nope"]}, "unknown-field"),
        ({"columns": {"nope": "c"}}, "unknown-field"),
        ({"columns": {"id": "c"}, "key": ["message"]}, "unknown-field"),
        ({"columns": {"id": "c", "message": "C"}}, "duplicate-column"),
        ({"mode": "upsert"}, "no-key"),
        ({"types": {"id": "BIGINT"}}, "unused-option"),
        ({"user": "me"}, "unused-option"),
        ({"properties": {"host": "x"}}, "reserved-property"),
        ({"url": "mysql://a:b@c/d"}, "url-with-password"),
    ],
)
def test_options_that_exclude_each_other(lite: Database, options: dict[str, Any], code: str) -> None:
    assert code in [finding.code for finding in lite.sink(**options).check(events(0, 1).schema)]


def test_types_of_a_created_table(mysql: Database) -> None:
    sink = mysql.sink(create=True, key=["message"], types={"id": "INT UNSIGNED"})

    written(sink, events(0, 1))

    columns = {row[0]: (row[1], row[3]) for row in mysql.run("SHOW COLUMNS FROM {t}")}
    assert columns == {"id": ("int(10) unsigned", ""), "message": ("varchar(255)", "PRI")}


def test_batches_are_limited_by_the_bytes_of_their_texts() -> None:
    sink = DatabaseSink(url="sqlite:///none.db", table="t")
    batch = pa.record_batch({"id": [1, 2], "message": ["event", None], OFFSET: [1, 2]})

    sizes = sink.open(task(batch)).sizes(batch)

    assert sizes is not None
    assert sizes.to_pylist() == [16 + len("event"), 16]
    assert (sink.batch.max_events, sink.batch.max_bytes) == (10_000, 32 << 20)
