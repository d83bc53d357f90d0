"""Values in SQL text: the server reads them unchanged, whatever they contain."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from databases import of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.database.database_url import parse_url
from connectors.database.row_isolation import write_accepted_rows
from connectors.database.session import Session, close
from connectors.database.sql_values import join_rows, rows_as_bytes, to_copy_text, to_mysql_literals
from connectors.database.tables import column_type

characters = st.one_of(st.sampled_from("'\"\\`%_\n\r\t\x00\x1a;-# NU"), st.characters(codec="utf-8"))
texts = st.lists(st.none() | st.text(characters, max_size=20), min_size=1, max_size=20)
quiet = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def mysql(request: pytest.FixtureRequest) -> Iterator[Session]:
    yield from shared_session("mariadb", request)


@pytest.fixture
def postgresql(request: pytest.FixtureRequest) -> Iterator[Session]:
    yield from shared_session("postgres", request)


def shared_session(name: str, request: pytest.FixtureRequest) -> Iterator[Session]:
    for database in of(name, request):
        session = database.session()
        yield session
        close(session)


@pytest.mark.slow
@pytest.mark.servers("mariadb")
@quiet
@given(texts)
def test_a_literal_is_read_back_as_its_text(mysql: Session, values: list[str | None]) -> None:
    row = bytes(rows_as_bytes(join_rows([to_mysql_literals(pa.array(values, pa.string()))], ",", "", "")))

    assert list(mysql.run(b"SELECT " + row[1:]).fetchone()) == values  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.servers("postgres")
@quiet
@given(texts)
def test_copied_lines_are_read_back_as_their_texts(postgresql: Session, values: list[str | None]) -> None:
    without_nul = [value if value is None else value.replace("\x00", "") for value in values]
    numbered = join_rows(
        [to_copy_text(pa.array(range(len(values)))), to_copy_text(pa.array(without_nul, pa.string()))], "", "\t", "\n"
    )

    postgresql.run("CREATE TEMPORARY TABLE IF NOT EXISTS copied (n INTEGER, v TEXT)")
    postgresql.run("DELETE FROM copied")
    with postgresql.driver.cursor().copy("COPY copied FROM STDIN") as copy:
        copy.write(rows_as_bytes(numbered))

    assert [row[0] for row in postgresql.run("SELECT v FROM copied ORDER BY n").fetchall()] == without_nul


@given(st.sets(st.integers(0, 63)), st.integers(1, 64), st.booleans())
def test_isolation_writes_all_good_rows_in_order(bad: set[int], count: int, tells: bool) -> None:
    from connectors.database.errors import RowsError

    batch = pa.record_batch({"n": pa.array(range(count), pa.int64())})
    table: list[int] = []

    def load(part: pa.RecordBatch) -> None:
        numbers = part.column("n").to_pylist()
        for place, number in enumerate(numbers):
            if number in bad:
                raise RowsError("bad", place if tells else None)
        table.extend(numbers)

    class FakeSession:
        def run_with_savepoint(self, action: object) -> None:
            action()  # type: ignore[operator]

    kept, reasons = write_accepted_rows(FakeSession(), load, batch)  # type: ignore[arg-type]

    assert table == [n for n in range(count) if n not in bad]
    assert kept.column("n").to_pylist() == table
    assert sorted(reasons) == sorted(bad & set(range(count)))


@pytest.mark.parametrize("name", ["UniqueViolation", "DuplicateObject", "DuplicateTable"])
def test_a_table_that_another_session_creates_at_the_same_moment_ends_no_run(name: str) -> None:
    """All that PostgreSQL says to CREATE TABLE IF NOT EXISTS then; creators of tables ignore a RowsError."""
    import psycopg

    from connectors.database.errors import RowsError, to_engine_error

    error = getattr(psycopg.errors, name)("type already exists")

    assert isinstance(to_engine_error(error, parse_url("postgresql://127.0.0.1/logs")), RowsError)


def test_special_numbers_are_quoted() -> None:
    (texts,) = to_mysql_literals(pa.array([1.5, float("nan"), float("-inf"), None]))

    assert texts.to_pylist() == ["1.5", "'nan'", "'-inf'", "NULL"]


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (pa.string(), ("MEDIUMTEXT", "TEXT", "TEXT")),
        (pa.null(), ("MEDIUMTEXT", "TEXT", "TEXT")),
        (pa.uint64(), ("BIGINT UNSIGNED", "NUMERIC(20)", "TEXT")),
        (pa.decimal128(12, 2), ("DECIMAL(12,2)", "DECIMAL(12,2)", "TEXT")),
        (pa.timestamp("us", "UTC"), ("DATETIME(6)", "TIMESTAMPTZ", "TIMESTAMP")),
        (pa.list_(pa.string()), ("JSON", "JSONB", "TEXT")),
        (pa.binary(), ("LONGBLOB", "BYTEA", "BLOB")),
    ],
)
def test_columns_of_a_created_table(type_: pa.DataType, expected: tuple[str, str, str]) -> None:
    assert tuple(column_type(type_, dialect) for dialect in ("mysql", "postgresql", "sqlite")) == expected


def test_key_columns_of_mysql_have_a_length() -> None:
    assert column_type(pa.string(), "mysql", is_key=True) == "VARCHAR(255) COLLATE utf8mb4_bin"
