"""The clickhouse sink with ClickHouse's engine: types, bad values, blocks that are sent again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from fake_http import FakeServer, Reply, Request
from servers.databases.clickhouse_server import ClickHouse

from connectors.clickhouse.sink import ClickHouseSink
from connectors.http.writer import RequestWriter
from etl.api import IDENTITY, OFFSET, TIMESTAMP, ComponentError, Result, Task

AT = datetime(2026, 11, 28, 8, 0, 0, 250001, UTC)
SECRET = "hunter2-clickhouse"
REMEMBERS = "SETTINGS non_replicated_deduplication_window = 1000"

numbers = itertools.count()


@pytest.fixture
def table(clickhouse: ClickHouse) -> Iterator[str]:
    """The name of a table that does not exist yet."""
    name = f"t{next(numbers)}"
    yield name
    clickhouse.rows(f"DROP TABLE IF EXISTS {name}")


def create(server: ClickHouse, table: str, columns: str = "n Int64", end: str = REMEMBERS) -> None:
    server.rows(f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY tuple() {end}")


def events(first: int, last: int, **columns: Any) -> pa.RecordBatch:
    ids = [f"a-{n}" for n in range(first, last)]
    return pa.RecordBatch.from_pydict({"n": list(range(first, last)), **columns, OFFSET: range(first, last), IDENTITY: ids})


def create_sink(server: ClickHouse | FakeServer, table: str, **options: Any) -> ClickHouseSink:
    url = server.url if isinstance(server, FakeServer) else server.address
    login = {"user": ClickHouse.user, "password": ClickHouse.password}
    return ClickHouseSink.model_validate({"type": "clickhouse", "urls": [url], "table": table, **login, **options})


def open_writer(sink: ClickHouseSink, batch: pa.RecordBatch, ordered: bool = True) -> RequestWriter:
    writer = sink.open(Task("p", "out", "split", "/nowhere", batch.drop_columns([OFFSET, IDENTITY]).schema, ordered=ordered))
    assert isinstance(writer, RequestWriter)
    return writer


def write(sink: ClickHouseSink, batch: pa.RecordBatch, ordered: bool = True) -> Result:
    return open_writer(sink, batch, ordered).write(batch)


def stored(server: ClickHouse, table: str) -> list[int]:
    return [int(row["n"]) for row in server.rows(f"SELECT n FROM {table} ORDER BY n")]


def test_values_get_the_types_of_their_columns(clickhouse: ClickHouse, table: str) -> None:
    columns = {
        "t": (
            "DateTime64(6, 'UTC')",
            pa.array([AT, None], TIMESTAMP),
            "2026-11-28 08:00:00.250001",
            "1970-01-01 00:00:00.000000",
        ),
        "source.ip": ("IPv6", ["2001:db8::1", "::1"], "2001:db8::1", "::1"),
        "level": ("Enum8('low' = 1, 'high' = 2)", ["high", "low"], "high", "low"),
        "kind": ("LowCardinality(Nullable(String))", ["a'b\\\n", None], "a'b\\\n", None),
        "price": ("Decimal(9, 2)", [Decimal("1.25"), Decimal("-2.50")], 1.25, -2.5),
        "tags": ("Array(String)", [["a", "b"], []], ["a", "b"], []),
        "id": ("UUID", ["7b0d4e44-5f4b-4c5e-9f9c-111111111111", "7b0d4e44-5f4b-4c5e-9f9c-222222222222"], None, None),
        "is_ok": ("Bool", [True, False], True, False),
        "raw": ("String", [b"ab", b""], "ab", ""),
        "nothing": ("Int8 DEFAULT 7", pa.nulls(2), 7, 7),
        "labels": ("Map(String, Int64)", pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())), {"a": 1}, {}),
    }
    create(clickhouse, table, ", ".join(["n Int64", *(f"`{name}` {type_[0]}" for name, type_ in columns.items())]))

    result = write(
        create_sink(clickhouse, table, compression="gzip"), events(0, 2, **{name: c[1] for name, c in columns.items()})
    )

    first, second = clickhouse.rows(f"SELECT * FROM {table} ORDER BY n")
    assert not result.rejected
    for name, (_, _, one, two) in columns.items():
        if one is not None:
            assert (name, first[name], second[name]) == (name, one, two)


@pytest.mark.parametrize(
    ("column", "values", "fits"),
    [
        ("UInt8", [0, 255, 256, -1, None], [1, 1, 0, 0, 1]),
        ("Int64", pa.array([2**63, 2**63 - 1], pa.uint64()), [0, 1]),
        ("UInt64", [-1, 2**63 - 1], [0, 1]),
        ("Nullable(Int8)", ["127", " 128", "-128", "+129", None], [1, 0, 1, 0, 1]),
        ("UInt32", [1.0, 1.5, 2.0**32, float("nan"), None], [1, 0, 0, 0, 1]),
        ("Int32", pa.array([Decimal("1.00"), Decimal("1.50")]), [1, 0]),
        ("DateTime", [AT, datetime(1969, 12, 31, tzinfo=UTC), datetime(2107, 1, 1, tzinfo=UTC)], [1, 0, 0]),
        ("DateTime64(3, 'UTC')", [datetime(1899, 12, 31, tzinfo=UTC), datetime(2299, 12, 31, tzinfo=UTC)], [0, 1]),
        ("Date", [datetime(2149, 6, 6).date(), datetime(2149, 6, 7).date()], [1, 0]),
        ("LowCardinality(Nullable(String))", [1, None], [1, 1]),
        ("Int64", ["9223372036854775807", "9223372036854775808", "0" * 40 + "7", "9" * 50], [1, 0, 1, 0]),
        ("UInt8", pa.array(["300", "7"]).dictionary_encode(), [0, 1]),
        ("UInt8", pa.array([Decimal("0.50"), Decimal("0.00")], pa.decimal128(2, 2)), [0, 1]),
        ("Decimal(5, 2)", pa.array([Decimal("1000.000"), Decimal("-999.990"), None], pa.decimal128(20, 3)), [0, 1, 1]),
        ("DateTime('UTC')", [2**33, -5, 2**32 - 1], [0, 0, 1]),
        ("Date32", [2**40, 3], [0, 1]),
        ("DateTime('UTC')", ["2026-11-28 10:00:00", "2150-01-01 00:00:00", "1950-01-01 00:00:00"], [1, 0, 0]),
        ("Nullable(DateTime('UTC'))", ["2026-11-28 10:00:00", "2026-13-01 00:00:00", "soon", None], [1, 0, 0, 1]),
        ("Nullable(UInt8)", ["x", "3", None], [0, 1, 1]),
        ("Nullable(Float64)", ["1e5", "x"], [1, 0]),
        ("Nullable(Decimal(9, 2))", ["-1.5", "1,5"], [1, 0]),
        ("Nullable(UUID)", ["7b0d4e44-5f4b-4c5e-9f9c-111111111111", "7b0d4e44"], [1, 0]),
        ("Nullable(IPv4)", ["192.0.2.7", "192.0.2.256"], [1, 0]),
        ("Nullable(IPv6)", ["2001:db8::1", "192.0.2.7", "x"], [1, 1, 0]),
        ("Nullable(Bool)", ["true", "maybe"], [1, 0]),
    ],
)
def test_values_beyond_a_column_are_dead_letters(
    clickhouse: ClickHouse, table: str, column: str, values: Any, fits: list[int]
) -> None:
    create(clickhouse, table, f"n Int64, v {column}")
    values = values if isinstance(values, pa.Array) else pa.array(values)

    result = write(create_sink(clickhouse, table, settings={"max_insert_block_size": "1000"}), events(0, len(fits), v=values))

    assert stored(clickhouse, table) == [n for n, one in enumerate(fits) if one]
    assert all("does not fit column 'v'" in str(reason) for one in result.rejected for reason in one.reasons.to_pylist())
    if column.startswith("LowCardinality"):
        assert [row["v"] for row in clickhouse.rows(f"SELECT v FROM {table} ORDER BY n")] == ["1", None]


def test_columns_that_are_added_while_a_process_lives_are_written(clickhouse: ClickHouse, table: str) -> None:
    create(clickhouse, table)
    sink = create_sink(clickhouse, table)
    write(sink, events(0, 1))
    with pytest.raises(ComponentError, match=r"has no column 'more' that can be written; .*ALTER TABLE"):
        write(sink, events(1, 2, more=[7]))
    clickhouse.rows(f"ALTER TABLE {table} ADD COLUMN more Int64")

    write(sink, events(1, 2, more=[7]))

    assert [int(row["more"]) for row in clickhouse.rows(f"SELECT more FROM {table} ORDER BY n")] == [0, 7]


def test_dots_are_underscores_where_the_table_has_no_dots(clickhouse: ClickHouse, table: str) -> None:
    create(clickhouse, table, "`host.name` String, source_ip String, lower_name String MATERIALIZED lower(`host.name`)")

    first, second = (events(n, n + 1, **{"host.name": ["A"], "source.ip": ["::1"]}).drop_columns(["n"]) for n in range(2))
    assert not write(create_sink(clickhouse, table), first).rejected
    write(create_sink(clickhouse, table, columns={"host.name": "source_ip"}), second)

    rows = clickhouse.rows(f"SELECT *, lower_name FROM {table} ORDER BY source_ip")
    assert [[*row.values()] for row in rows] == [["A", "::1", "a"], ["", "A", ""]]


def test_a_block_that_is_sent_again_is_stored_once(clickhouse: ClickHouse, table: str) -> None:
    create(clickhouse, table, "n Int64")
    clickhouse.rows(f"CREATE MATERIALIZED VIEW {table}_m ENGINE = MergeTree ORDER BY n {REMEMBERS} AS SELECT n FROM {table}")
    sink = create_sink(clickhouse, table)

    for first, last in ((0, 1000), (0, 1000), (1000, 1500), (0, 1000), (1000, 1500)):
        write(sink, events(first, last))

    assert stored(clickhouse, table) == [*range(1500)]
    assert stored(clickhouse, f"{table}_m") == [*range(1500)]
    write(create_sink(clickhouse, table, delivery="at_least_once"), events(0, 1000))
    assert len(stored(clickhouse, table)) == 2500
    clickhouse.rows(f"DROP TABLE {table}_m")


def test_the_largest_block_is_one_part(clickhouse: ClickHouse, table: str) -> None:
    create(clickhouse, table, "n Int64")

    write(create_sink(clickhouse, table, batch={"max_events": 1_000_000}), events(0, 1_000_000))

    (row,) = clickhouse.rows(f"SELECT count() AS n FROM system.parts WHERE table = '{table}' AND level = 0")
    assert int(row["n"]) == 1


def test_results_in_another_order_are_not_taken_for_others(clickhouse: ClickHouse, table: str) -> None:
    create(clickhouse, table, "n Int64")
    first = events(0, 4)
    second = pa.RecordBatch.from_pydict({**first.to_pydict(), "n": [4, 5, 6, 7]})

    for batch in (first, first, second):
        write(create_sink(clickhouse, table), batch, ordered=False)

    assert stored(clickhouse, table) == [*range(8)]


@pytest.mark.parametrize("bad", [{0}, {99}, {4, 5, 60}, set(range(20))])
def test_bad_rows_are_dead_letters_and_the_others_are_stored_once(clickhouse: ClickHouse, table: str, bad: set[int]) -> None:
    create(clickhouse, table, "n Int64, ip IPv4")
    texts = ["x" if n in bad else "192.0.2.1" for n in range(100)]
    sink, batch = create_sink(clickhouse, table), events(0, 100, ip=texts)

    results = [write(sink, batch) for _ in range(2)]

    for result in results:
        assert {n for one in result.rejected for n in one.events.column("n").to_pylist()} == bad
        assert {one.code for one in result.rejected} == {"clickhouse-rejected"}
        assert "IPv4" in str(result.rejected[0].reasons)
    assert stored(clickhouse, table) == sorted({*range(100)} - bad)


def test_a_constraint_and_too_many_partitions_concern_rows(clickhouse: ClickHouse, table: str) -> None:
    create(clickhouse, table, "n Int64, CONSTRAINT small CHECK n < 90", f"PARTITION BY n {REMEMBERS}")
    sink = create_sink(clickhouse, table, settings={"max_partitions_per_insert_block": "30"})

    result = write(sink, events(0, 91))

    assert [one.events.column("n").to_pylist() for one in result.rejected] == [[90]]
    assert stored(clickhouse, table) == [*range(90)]


def test_what_is_retried_is_divided_as_before(clickhouse: ClickHouse, table: str) -> None:
    """The answer to a part is lost after it was stored: the retry sends the same part, which is known."""
    create(clickhouse, table, "n Int64, ip IPv4")
    batch = events(0, 8, ip=["x"] + ["192.0.2.1"] * 7)

    def pass_on(request: Request) -> Reply:
        body = request.body
        writer = open_writer(create_sink(clickhouse, table), batch)
        answer = writer.client.request("POST", request.path, body, "x")
        return Reply(
            answer.status, answer.body, {"X-ClickHouse-Exception-Code": answer.headers.get("x-clickhouse-exception-code", "")}
        )

    def lose(request: Request) -> Reply:
        pass_on(request)
        return Reply(cut=0)

    with (proxy := FakeServer(pass_on)).running():
        writer = open_writer(create_sink(proxy, table), batch)
        proxy.replies = [pass_on] * 5 + [lose]  # 0 to 8, 0 to 4, 0 to 2, 0, 1; 2 to 4 is stored and its response lost
        result, rejected = writer.write(batch), 0
        for _ in range(5):
            rejected += sum(one.events.num_rows for one in result.rejected)
            if result.retryable is None:
                break
            batch = batch.take(result.retryable)
            result = writer.write(batch)

    assert rejected == 1
    assert stored(clickhouse, table) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(252, "retry"), (241, "retry"), (999, "retry"), (319, "retry"), (60, "stop"), (516, "stop"), (27, "dead"), (53, "dead")],
)
def test_the_code_decides_and_not_the_status(code: int, outcome: str) -> None:
    text = f"Code: {code}. DB::Exception: What. (NAME) (version 26.5.1.1 (official build))".encode()
    columns = Reply(body=b'{"name":"n","type":"Int64"}\n')
    with (server := FakeServer(lambda request: columns if b"DESCRIBE" in request.body else Reply(500, text))).running():
        sink = create_sink(server, "logs", password=SECRET)
        if outcome == "stop":
            with pytest.raises(ComponentError, match="without loss") as raised:
                write(sink, events(0, 1))
            assert SECRET not in str(raised.value)
            return
        result = write(sink, events(0, 1))

    assert (result.retryable is not None, len(result.rejected)) == ((True, 0) if outcome == "retry" else (False, 1))


def test_statuses_count_where_there_is_no_code() -> None:
    columns = Reply(body=b'{"name":"n","type":"Int64"}\n')
    busy = Reply(503, b"<html>", {"Retry-After": "7"})
    with (server := FakeServer(lambda request: columns if b"DESCRIBE" in request.body else busy)).running():
        result = write(create_sink(server, "logs"), events(0, 3))

    assert result.retryable is not None
    assert (len(result.retryable), result.after) == (3, 7)


def test_the_table_is_checked_before_the_first_event(clickhouse: ClickHouse, table: str) -> None:
    schema = events(0, 1).schema
    sink = create_sink(clickhouse, table)
    with pytest.raises(ComponentError, match=r"UNKNOWN_TABLE.*check table"):
        sink.prepare(schema)

    create(clickhouse, table, end="")
    with pytest.raises(ComponentError, match=r"MODIFY SETTING non_replicated_deduplication_window = 10000; or write delivery"):
        sink.prepare(schema)
    create_sink(clickhouse, table, delivery="at_least_once").prepare(schema)
    clickhouse.rows(f"ALTER TABLE {table} MODIFY SETTING non_replicated_deduplication_window = 10000")
    sink.prepare(schema)

    with pytest.raises(ComponentError, match=r"no column 'nn' that can be written; did you mean 'n'\?"):
        sink.prepare(pa.schema([("nn", pa.int64())]))
    (finding,) = create_sink(clickhouse, table, password=SECRET).probe(schema)
    assert (finding.code, SECRET in str(finding)) == ("not-ready", False)


def test_an_engine_that_forgets(clickhouse: ClickHouse, table: str) -> None:
    clickhouse.rows(f"CREATE TABLE {table} (n Int64) ENGINE = Memory")

    (finding,) = create_sink(clickhouse, f"{ClickHouse.database}.{table}").probe(events(0, 1).schema)

    assert (finding.code, "engine Memory" in finding.message) == ("no-deduplication", True)


def test_findings() -> None:
    def codes(**options: Any) -> list[str]:
        sink = ClickHouseSink.model_validate({"type": "clickhouse", "urls": ["http://h:8123"], "table": "t", **options})
        return [finding.code for finding in sink.check(pa.schema([("n", pa.int64()), ("a.b", pa.string())]))]

    assert codes() == []
    assert codes(urls=["http://h:8123/?x=1"]) == ["invalid-value"]
    assert codes(columns={"n": "x", "a.b": "x"}) == ["duplicate-column"]
    assert codes(columns={"m": "x"}) == ["unknown-field"]
    assert codes(settings={"async_insert": "1"}) == ["invalid-value"]
    assert codes(batch={"max_events": 2_000_000}) == ["invalid-value"]
    assert codes(batch={"max_bytes": 1000}) == ["invalid-value"]
    assert codes(batch={"max_events": 10, "timeout": "5s"}) == ["unused-option"]
    assert codes(batch={"max_events": 2_000_000, "timeout": "5s"}, delivery="at_least_once") == []
    assert codes(password="x") == ["missing-user"]
    with pytest.raises(ValueError, match="should match pattern"):
        codes(table="a`b")
