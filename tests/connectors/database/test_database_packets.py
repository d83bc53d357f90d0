"""Rows in MySQL's packets, however these arrive, and bytes that are not rows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from databases import Database, of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.database import mysql_packets
from connectors.database.row_reader import read_rows
from etl.api import ComponentError

END = b"\xfe\x00\x00\x02\x00"
VALUES = st.none() | st.binary(max_size=20) | st.integers(0, 70_000).map(lambda size: b"x" * size)


@dataclass
class Pieces(io.RawIOBase):
    """A socket that returns a limited number of bytes at a time."""

    content: bytes
    size: int
    at: int = 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        found = self.content[self.at : self.at + min(self.size, len(room))]
        room[: len(found)] = found
        self.at += len(found)
        return len(found)


class Driver:
    """The part of PyMySQL's connection that is used after a query."""

    def __init__(self, content: bytes, size: int = 1 << 16, number: int = 0) -> None:
        self._rfile = io.BufferedReader(Pieces(content, size))
        self._next_seq_id = number


def encoded(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    for below, mark, width in ((251, b"", 1), (1 << 16, b"\xfc", 2), (1 << 24, b"\xfd", 3)):
        if size < below:
            return mark + size.to_bytes(width, "little") + value
    return b"\xfe" + size.to_bytes(8, "little") + value


def framed(payloads: list[bytes], number: int = 0) -> bytes:
    found = bytearray()
    for payload in payloads:
        while True:
            part, payload = payload[:0xFFFFFF], payload[0xFFFFFF:]
            found += len(part).to_bytes(3, "little") + bytes([number]) + part
            number = (number + 1) & 0xFF
            if len(part) < 0xFFFFFF:
                break
    return bytes(found)


def cut(content: bytes, width: int, size: int = 1 << 16, number: int = 0) -> list[tuple[bytes | None, ...]]:
    found: list[tuple[bytes | None, ...]] = []
    for columns in mysql_packets._PacketReader(Driver(content, size, number), width).batches():
        found += zip(*(column.view(_raw(column)).to_pylist() for column in columns), strict=True)
    return found


def _raw(column: pa.Array) -> pa.DataType:
    return pa.large_binary() if column.type == pa.large_string() else pa.binary()


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 4), st.integers(1, 200_000), st.integers(0, 255))
def test_rows_that_were_sent_are_read(data: st.DataObject, width: int, size: int, number: int) -> None:
    sent = data.draw(st.lists(st.tuples(*[VALUES] * width), max_size=30))
    payloads = [b"".join(map(encoded, row)) for row in sent]

    content = framed([*payloads, END], number)

    assert cut(content, width, max(size, len(content) >> 12), number) == sent  # a call for each piece: 4,096 of them at most


def test_batches_end_when_their_buffer_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_packets, "BUFFER_BYTES", 64)
    monkeypatch.setattr(mysql_packets, "MAX_BATCH_ROWS", 3)
    sent = [(b"a" * n, None, b"b") for n in [*range(20), 500, 3, 1000, 0]]

    assert cut(framed([*(b"".join(map(encoded, row)) for row in sent), END]), 3, 50) == sent


@pytest.mark.slow
@pytest.mark.parametrize("size", [0xFFFFFF - 4, 0xFFFFFF - 3, 0xFFFFFF, 2 * 0xFFFFFF + 5])
def test_a_row_can_span_several_packets(size: int) -> None:
    sent = [(b"first",), (b"x" * size,), (b"last",)]

    assert cut(framed([*(encoded(row[0]) for row in sent), END]), 1) == sent


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@example([b"\xff"], 1, b"")
@example([b"\xff\x01\x02"], 1, b"")
@example([b"\xff\x01\x02#\xff\xff\xff\xff\xff"], 1, b"")
@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(1, 3), st.binary(max_size=10))
def test_bytes_that_are_not_rows_are_errors(payloads: list[bytes], width: int, rest: bytes) -> None:
    try:
        cut(framed(payloads) + rest, width)
    except Exception as error:
        assert type(error).__module__ == "pymysql.err"  # noqa: PT017  # any of them will do
    else:
        assert b"\xfe" in framed(payloads) + rest


def test_packets_out_of_order_are_an_error() -> None:
    from pymysql.err import OperationalError  # type: ignore[import-untyped]

    with pytest.raises(OperationalError, match="malformed row"):
        cut(framed([encoded(b"a")]) + framed([encoded(b"b"), END], 5), 1)


@pytest.fixture(params=["mariadb"])
def mariadb_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of(request.param, request)


@pytest.mark.servers
def test_rows_of_a_real_server_are_read(mariadb_database: Database) -> None:
    session = mariadb_database.session()
    sql = (
        "SELECT seq, repeat('é', seq MOD 300), if(seq MOD 7, NULL, ''), seq MOD 2 = 1, CAST(seq MOD 2 AS INT), x'00ff', "
        "TIMESTAMP'2026-01-02 03:04:05.25' FROM seq_1_to_200000"
    )
    types = [pa.int64(), pa.string(), pa.string(), pa.bool_(), pa.bool_(), pa.binary(), pa.timestamp("us", tz="UTC")]
    schema = pa.schema([(str(place), type_) for place, type_ in enumerate(types)])

    found = pa.Table.from_batches([batch for batch, bad in read_rows(session, sql, schema) if bad is None])

    assert found.num_rows == 200_000
    assert found["0"].to_pylist() == list(range(1, 200_001))
    row = {name: value for name, value in found.slice(300, 1).to_pylist()[0].items() if name != "6"}
    assert row == {"0": 301, "1": "é", "2": "", "3": True, "4": True, "5": b"\x00\xff"}
    assert found["6"].cast(pa.string())[0].as_py() == "2026-01-02 03:04:05.250000Z"
    assert session.run("SELECT 1").fetchone() == ("1",) or session.run("SELECT 1").fetchone() == (1,)


@pytest.mark.servers
def test_a_row_of_a_real_server_can_span_several_packets(mariadb_database: Database) -> None:
    sql = "SELECT repeat('a', 9000000), repeat('b', 9000000) UNION ALL SELECT 'c', 'd'"
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])

    found = [row for batch, _ in read_rows(mariadb_database.session(), sql, schema) for row in batch.to_pylist()]

    assert [(row["a"][:1], len(row["a"]), len(row["b"])) for row in found] == [("a", 9_000_000, 9_000_000), ("c", 1, 1)]


@pytest.mark.servers
def test_bits_are_booleans_and_unreadable_values_are_reported(mariadb_database: Database) -> None:
    mariadb_database.run("CREATE TABLE {t} (n INT, gone BIT(1), score VARCHAR(10))")
    mariadb_database.run("INSERT INTO {t} VALUES (1, b'1', '7'), (2, b'0', 'many'), (3, NULL, NULL)")
    schema = pa.schema([("gone", pa.bool_()), ("score", pa.int32())])

    ((found, bad),) = read_rows(
        mariadb_database.session(), f"SELECT gone, score FROM {mariadb_database.table} ORDER BY n", schema
    )

    assert found.to_pylist() == [{"gone": True, "score": 7}, {"gone": False, "score": None}, {"gone": None, "score": None}]
    assert bad is not None
    assert (bad.rows, bad.reasons) == ([1], ["score is 'many', not int"])


@pytest.mark.servers
def test_a_server_error_between_rows_becomes_an_engine_error(mariadb_database: Database) -> None:
    sql = "SELECT (SELECT 1 UNION SELECT seq) FROM seq_1_to_9"
    session = mariadb_database.session()

    with pytest.raises(ComponentError, match="Subquery returns more than 1 row"):
        list(read_rows(session, sql, pa.schema([("a", pa.int64())])))
