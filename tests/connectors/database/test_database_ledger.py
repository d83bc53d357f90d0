"""Exactly once: each row is in the table once, however often and in whatever batches a split is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from databases import EVERY, WHOLE, Database, events, of, task
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.database import session as sessions
from connectors.database.ledger import pack_rejects, shorten, unpack_rejects
from connectors.shared.event_positions import START_OF_SPLIT, EventPosition, add_positions
from etl.api import OFFSET, BatchId, ComponentError, Rejects, Writer

COUNT = "SELECT count(*), count(DISTINCT id) FROM {t}"
RANGE = task(events(0, 1)).split


@pytest.fixture(params=EVERY)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of(request.param, request)


@pytest.fixture
def lite(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of("sqlite", request)


def write(writer: Writer, first: int, last: int, size: int) -> list[Rejects]:
    """Return events in batches of a given size."""
    found: list[Rejects] = []
    for at in range(first, last, size):
        found += writer.write(events(at, min(at + size, last))).rejected
    return found


def losing_commit(monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    """Make the next COMMIT lose its connection, before or after the server executes it."""
    run = sessions.Session.run
    left = [1]

    def broken(self: sessions.Session, sql: str, values: Any = None) -> Any:
        if sql == "COMMIT" and left:
            left.clear()
            if after:
                run(self, sql, values)
            sessions.close(self)
            raise OSError("connection lost")
        return run(self, sql, values)

    monkeypatch.setattr(sessions.Session, "run", broken)


def test_a_split_that_is_written_again_in_other_batches_changes_nothing(database: Database) -> None:
    sink = database.sink(create=True)
    first = sink.open(task(events(0, 1)))
    write(first, 0, 70, 20)  # and killed

    again = sink.open(task(events(0, 1)))
    write(again, 0, 100, 33)
    again.close()

    assert database.run(COUNT) == [(100, 100)]


@pytest.mark.parametrize("split", [RANGE, WHOLE])
@pytest.mark.parametrize("after", [False, True], ids=["not committed", "committed"])
def test_a_commit_whose_outcome_is_unknown(database: Database, monkeypatch: pytest.MonkeyPatch, after: bool, split: str) -> None:
    database.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY, message VARCHAR(20))")
    sink = database.sink(retry={"initial_backoff": "1ms"})
    writer = sink.open(task(events(0, 1), split))
    refused = list(writer.write(events(0, 10)).rejected) if split == WHOLE else []
    losing_commit(monkeypatch, after)

    for _ in range(2):
        try:
            refused += writer.write(events(10, 20)).rejected
            break
        except OSError:
            continue
    write(writer, 20, 30, 5)
    writer.close()

    assert database.run(COUNT) == [(30 if split == WHOLE else 20, 30 if split == WHOLE else 20)]
    assert not refused


@pytest.mark.parametrize("split", [RANGE, WHOLE])
def test_rejected_rows_are_rejected_again_when_the_split_is_written_again(database: Database, split: str) -> None:
    database.needs_checks()
    database.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY CHECK (id <> 7 AND id <> 41), message VARCHAR(20))")
    sink = database.sink()
    first = sink.open(task(events(0, 1), split))
    once = write(first, 0, 50, 10)
    first.close()

    again = sink.open(task(events(0, 1), split))
    twice = write(again, 0, 50, 25)
    again.close()

    for found in (once, twice):
        assert sorted(n for one in found for n in one.events.column("id").to_pylist()) == [7, 41]
    assert [one.reasons.to_pylist() for one in once] == [one.reasons.to_pylist() for one in twice]
    assert database.run(COUNT) == [(48, 48)]


def test_two_writers_of_one_split_at_once(database: Database) -> None:
    database.sink(create=True).open(task(events(0, 1))).write(events(0, 1))
    errors: list[BaseException] = []

    def one(size: int) -> None:
        try:
            write(database.sink().open(task(events(0, 1))), 0, 400, size)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(size,)) for size in (7, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert not errors
    assert database.run(COUNT) == [(400, 400)]


def test_other_splits_and_micro_batches_are_independent(database: Database) -> None:
    sink = database.sink(create=True)

    for number, split in ((1, RANGE), (2, RANGE), (1, RANGE + "-1")):
        writer = sink.open(task(events(0, 1), split, number))
        write(writer, 0, 10, 4)
        writer.close()

    assert database.run("SELECT count(*) FROM {t}") == [(30,)]


def test_the_committer_deletes_entries_of_finished_micro_batches(database: Database) -> None:
    sink = database.sink(create=True)
    for number in (1, 2):
        writer = sink.open(task(events(0, 1), RANGE, number))
        write(writer, 0, 10, 4)
        staged = writer.close()
    assert staged is not None

    committer = sink.committer("/nonexistent")
    assert committer is not None
    committer.commit(BatchId("another", 2), [staged])
    assert database.run("SELECT batch FROM {l} ORDER BY batch") == [(1,), (2,)]
    committer.commit(BatchId("query", 2), [staged])

    assert database.run("SELECT batch FROM {l}") == [(2,)]


def test_results_of_spark_are_written_completely_or_not_at_all(database: Database) -> None:
    sink = database.sink(create=True)
    killed = sink.open(task(events(0, 1), WHOLE))
    write(killed, 0, 30, 10)
    killed.abort()
    assert database.run("SELECT count(*) FROM {t}") == [(0,)]

    writer = sink.open(task(events(0, 1), WHOLE))
    writer.write(events(0, 30).take(pa.array([*range(29, -1, -1)])))  # in another order
    writer.close()
    again = sink.open(task(events(0, 1), WHOLE))
    write(again, 0, 30, 7)
    again.close()

    assert database.run(COUNT) == [(30, 30)]


def test_sinks_of_one_task_share_the_transaction(database: Database) -> None:
    """One sink upserts rows of another, one creates its table, one has no ledger: none waits for another."""
    made = f"{database.table}_made"
    sinks = [
        database.sink(create=True, mode="upsert", key=["id"]),
        database.sink(mode="upsert", key=["id"]),
        database.sink(table=made, create=True),
        database.sink(delivery="at_least_once"),
    ]
    writers = [sink.open(task(events(0, 1), f"{WHOLE}-{n}")) for n, sink in enumerate(sinks)]

    for writer, first, last in zip(writers, (0, 5, 10, 15), (10, 15, 20, 20), strict=True):
        writer.write(events(first, last))
    for writer in writers[:-1]:
        writer.close()
    assert database.run("SELECT count(*) FROM {t}") == [(0,)]
    writers[-1].close()

    assert database.run(COUNT) == [(20, 20)]
    assert database.run(f"SELECT count(*) FROM {made}") == [(10,)]
    database.run(f"DROP TABLE {made}")


def test_a_lost_transaction_is_repeated_with_all_batches(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.needs_checks()
    monkeypatch.setattr("connectors.database.written_batches.MAX_MEMORY_BYTES", 200)
    database.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY CHECK (id <> 7), message VARCHAR(20))")
    sink = database.sink()
    writer = sink.open(task(events(0, 1), WHOLE))
    refused = write(writer, 0, 40, 10)
    sessions.close(sessions.shared_session(sink.settings))

    refused += writer.write(events(40, 50)).rejected
    writer.close()

    assert database.run(COUNT) == [(49, 49)]
    assert [one.events.column("id").to_pylist() for one in refused] == [[7]]


def test_events_out_of_order_are_an_error_without_loss(lite: Database) -> None:
    writer = lite.sink(create=True).open(task(events(0, 1)))
    writer.write(events(10, 20))

    with pytest.raises(ComponentError, match="another order"):
        writer.write(events(0, 5))


def test_events_with_the_same_offset_have_different_positions(lite: Database) -> None:
    same = events(0, 10).set_column(2, OFFSET, pa.array([3] * 10, pa.int64()))
    first = lite.sink(create=True).open(task(events(0, 1)))
    first.write(same.slice(0, 4))

    again = lite.sink().open(task(events(0, 1)))
    for at in range(0, 10, 3):
        again.write(same.slice(at, 3))

    assert lite.run(COUNT) == [(10, 10)]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30).map(sorted), st.data())
def test_positions_do_not_depend_on_the_batches(offsets: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(offsets)))
    batch = pa.record_batch([pa.array(offsets, pa.int64())], names=[OFFSET])
    whole = add_positions(batch, START_OF_SPLIT, "database")
    positions = [EventPosition(o, a) for o, a in zip(offsets, whole.ordinal.to_pylist(), strict=True)]

    head = add_positions(batch.slice(0, cut), START_OF_SPLIT, "database")

    assert sorted(set(positions)) == positions
    assert head.last == positions[cut - 1]
    if cut < len(offsets):
        assert add_positions(batch.slice(cut), head.last, "database").last == positions[-1]
    assert whole.after(head.last).batch.num_rows == len(offsets) - cut


def test_rejected_rows_are_read_back_from_the_ledger() -> None:
    given_rows = [
        Rejects(events(0, 3), "database-rejected", pa.array(["a", "b", "c"])),
        Rejects(events(5, 6), "x", pa.array(["d"])),
    ]

    found = list(unpack_rejects(pack_rejects(given_rows)))

    assert [(one.code, one.reasons.to_pylist()) for one in found] == [("database-rejected", ["a", "b", "c"]), ("x", ["d"])]
    assert found[0].events.equals(given_rows[0].events)


def test_long_names_stay_different() -> None:
    assert shorten("a", 64) == "a"
    assert len(shorten("x" * 300, 64)) == 64
    assert shorten("x" * 300, 64) != shorten("x" * 301, 64)
    assert shorten("ä", 64).isascii()
