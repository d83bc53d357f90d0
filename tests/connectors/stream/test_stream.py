"""Streams: subscribers read what was committed, once and in order, whatever happened to the publisher."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.stream import reader, records
from connectors.stream.index import NAME, StreamIndex, load_index
from connectors.stream.publisher import Publisher, RetentionLimits
from connectors.stream.sink import StreamSink
from connectors.stream.source import StreamSource
from connectors.stream.subscribers import subscribers
from etl.api import OFFSET, Backlog, BatchId, ComponentError, Limit, Offset, Rejects, Staged, Task
from etl.config import check

EVERYTHING = Limit(1 << 62)


def events(first: int, last: int) -> pa.RecordBatch:
    numbers = pa.array(range(first, last), pa.int64())
    return pa.record_batch([numbers, pa.array([f"event {n}" for n in range(first, last)]), numbers], names=["n", "text", OFFSET])


@dataclass
class Stream:
    """A stream in a folder, with a clock of the test's own."""

    root: Path
    now: float = 1_800_000_000.0
    publisher: Publisher | None = None
    splits: int = 0
    limits: RetentionLimits = field(default_factory=lambda: RetentionLimits(1 << 20, 3600, "delete"))

    @property
    def folder(self) -> Path:
        return self.root / "streams" / "s"

    @property
    def index(self) -> StreamIndex:
        found = load_index(self.folder)
        assert found is not None
        return found

    def open(self) -> Publisher:
        if self.publisher is None:
            self.publisher = Publisher(self.folder, self.limits, lambda: self.now)
        return self.publisher

    def stage(self, *batches: pa.RecordBatch) -> Staged:
        self.splits += 1
        task = Task("ssh", "out", f"split{self.splits}", str(self.root), batches[0].schema)
        writer = StreamSink(name="s", folder="unused").open(task)
        for batch in batches:
            assert writer.write(batch).rejected == []
        staged = writer.close()
        assert staged is not None
        return staged

    def publish(self, number: int, *batches: pa.RecordBatch, query: str = "q") -> None:
        self.open().commit(BatchId(query, number), [self.stage(batch) for batch in batches])

    def kill(self) -> None:
        """The publisher's process ends: its lock is gone, and nothing else is done."""
        if self.publisher is not None:
            os.close(self.publisher._lock)
            self.publisher = None

    def source(self, **options: Any) -> StreamSource:
        given = {"name": "s", "folder": str(self.root / "streams"), "fields": {"n": "bigint", "text": "string"}} | options
        return StreamSource.model_validate(given).with_folder(str(self.root / "alerts" / "sources" / "main"))


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def read(source: StreamSource, start: Offset, end: Offset, parallelism: int = 2) -> list[int]:
    """The numbers of the events between two offsets, whose offsets are those of the stream."""
    found: list[int] = []
    for split in source.splits(start, end, parallelism):
        for batch in source.read(split):
            assert isinstance(batch, pa.RecordBatch), batch
            assert batch.schema.names == [*source.declared, OFFSET]
            found += batch["n"].to_pylist()
    return found


def lost(source: StreamSource, start: Offset, end: Offset) -> list[str]:
    outcomes = [batch for split in source.splits(start, end, 2) for batch in source.read(split)]
    return [f"{one.code}: {one.reasons}" for one in outcomes if isinstance(one, Rejects)]


def test_events_of_all_splits_are_read_in_order_by_any_number_of_splits(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "RECORD_BYTES", 2000)
    monkeypatch.setattr(reader, "BATCH_EVENTS", 100)
    monkeypatch.setattr("connectors.stream.positions.MIN_SPLIT_BYTES", 500)
    stream.publish(0, events(0, 400), events(400, 401))
    stream.publish(1, events(401, 900))
    source = stream.source()

    start = source.start()
    end = source.latest(start, EVERYTHING)

    assert read(source, start, end, 1) == list(range(900))
    assert read(source, start, end, 7) == list(range(900))
    assert len(source.splits(start, end, 7)) > 4
    assert source.latest(end, EVERYTHING) == end


@pytest.mark.slow
@pytest.mark.parametrize("max_events", [1, 7, 250, 10_000])
def test_micro_batches_with_a_limit_of_events_join_without_gaps(stream: Stream, max_events: int) -> None:
    for number in range(5):
        stream.publish(number, events(number * 100, number * 100 + 100))
    source = stream.source()
    until = source.latest(source.start(), EVERYTHING)

    found: list[int] = []
    begin = source.start()
    while len(found) < 500:
        end = source.latest(begin, Limit(1 << 62, max_events, bounded=True, until=until))
        part = read(source, begin, end)
        assert 1 <= len(part) <= max_events
        assert source.backlog(begin) == Backlog(500 - len(found))
        found, begin = found + part, end

    assert found == list(range(500))
    assert begin == until
    assert source.latest(begin, Limit(1 << 62, 0)) == begin


def test_a_limit_of_bytes_ends_a_micro_batch_after_a_record(stream: Stream) -> None:
    for number in range(20):
        stream.publish(number, events(number * 100, number * 100 + 100))
    source = stream.source()

    first = source.latest(source.start(), Limit(2000))
    rest = source.latest(first, EVERYTHING)

    assert 100 <= len(read(source, source.start(), first)) < 500
    assert read(source, source.start(), first) + read(source, first, rest) == list(range(2000))


def test_a_micro_batch_that_is_committed_again_changes_nothing(stream: Stream) -> None:
    stream.publish(0, events(0, 10))
    stream.publish(0, events(0, 10))
    stream.publish(0, events(10, 20), query="other")

    source = stream.source()
    assert read(source, source.start(), source.latest(source.start(), EVERYTHING)) == list(range(20))


def test_nothing_is_visible_that_a_killed_publisher_had_not_committed(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.publish(0, events(0, 10))
    source = stream.source()
    before = source.latest(source.start(), EVERYTHING)
    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "_save", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            stream.publish(1, events(500, 600))
    assert source.latest(before, EVERYTHING) == before
    stream.kill()

    stream.publish(1, events(10, 20))

    assert read(source, source.start(), source.latest(source.start(), EVERYTHING)) == list(range(20))


def test_a_full_disk_leaves_nothing_and_the_commit_is_repeated(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.publish(0, events(0, 10))
    staged = [stream.stage(events(10, 20)), stream.stage(events(20, 30))]
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            stream.open().commit(BatchId("q", 1), staged)

    stream.open().commit(BatchId("q", 1), staged)

    source = stream.source()
    assert read(source, source.start(), source.latest(source.start(), EVERYTHING)) == list(range(30))


def test_a_stream_has_one_publisher(stream: Stream) -> None:
    stream.open()

    with pytest.raises(ComponentError, match="another run publishes"):
        Publisher(stream.folder, stream.limits)


def fill(stream: Stream, first: int, commits: int) -> int:
    """Publish micro-batches of about 120 kB, which do not compress; returns the number after the last event."""
    for number in range(first, first + commits):
        texts = pa.array([os.urandom(30_000).hex() for _ in range(2)])
        numbers = pa.array([2 * number, 2 * number + 1], pa.int64())
        stream.publish(number, pa.record_batch([numbers, texts, numbers], names=["n", "text", OFFSET]))
    return 2 * (first + commits)


def test_the_options_of_the_sink_are_the_limits_of_the_stream(stream: Stream) -> None:
    options = {"folder": str(stream.root / "streams"), "retain": {"max_bytes": "2MiB", "max_age": "6h"}, "when_full": "wait"}

    publisher = StreamSink.model_validate({"name": "s", **options}).committer(str(stream.root))
    publisher.close()

    assert (publisher.folder, publisher.limits) == (stream.folder, RetentionLimits(2 << 20, 6 * 3600, "wait"))


def test_publishers_and_subscribers_without_a_folder_meet_in_that_of_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = StreamSource.model_validate({"name": "s", "fields": {"n": "bigint"}})
    for name, value, home in (("ETL_STATE", str(tmp_path), tmp_path), ("HOME", str(tmp_path), tmp_path / ".local/state/sluice")):
        monkeypatch.setenv(name, value)
        sink = StreamSink(name="s")

        assert sink.host_path() == str(home / ".streams" / "s")
        assert [source.reads(target) for target in sink.writes()] == [True]
        monkeypatch.delenv(name)


def test_a_full_stream_deletes_the_oldest_and_a_slow_subscriber_is_told_what_it_lost(stream: Stream) -> None:
    fill(stream, 0, 3)
    slow, patient = stream.source(on_data_loss="continue"), stream.source()
    start = slow.start()
    end = fill(stream, 3, 40)

    index = stream.index
    assert 1 << 19 < index.end - index.first <= 1 << 20
    assert {path.name for path in stream.folder.glob("*.segment")} == {f"{one.start:020d}.segment" for one in index.segments}
    with pytest.raises(ComponentError, match=r"events of stream 's', 0 to \d+, were deleted .* `on_data_loss: continue`"):
        patient.latest(start, EVERYTHING)
    batch = slow.latest(start, EVERYTHING)
    first = index.first_event
    assert lost(slow, start, batch) == [
        f"data-lost: {first:,} events of stream 's', 0 to {first - 1:,}, were deleted before they were read"
    ]
    assert read(slow, batch["begin"], batch) == list(range(first, end))
    assert slow.latest(batch, EVERYTHING) == batch


def test_events_that_are_deleted_while_they_are_read_are_reported(stream: Stream) -> None:
    end = fill(stream, 0, 10)
    source = stream.source(on_data_loss="continue")
    batch = source.latest(source.start(), EVERYTHING)
    splits = source.splits(source.start(), batch, 1)
    fill(stream, 10, 40)

    outcomes = [found for split in splits for found in source.read(split)]

    assert [one.code for one in outcomes if isinstance(one, Rejects)] == ["data-lost"]
    with pytest.raises(ComponentError, match=rf"to {end - 1}, were deleted"):
        list(stream.source().read(splits[0]))


def test_events_that_are_too_old_are_deleted(stream: Stream) -> None:
    stream.publish(0, events(0, 10))
    stream.now += 3599
    stream.publish(1, events(10, 20))
    stream.open().tick()
    source = stream.source()
    assert len(read(source, source.start(), source.latest(source.start(), EVERYTHING))) == 20

    stream.now += 2
    stream.open().tick()
    assert read(source, source.start(), source.latest(source.start(), EVERYTHING)) == list(range(10, 20))

    stream.now += 3600
    stream.open().tick()
    assert list(stream.folder.glob("*.segment")) == []
    stream.publish(2, events(20, 30))
    assert read(source, source.start(), source.latest(source.start(), EVERYTHING)) == list(range(20, 30))


def test_a_publisher_that_waits_goes_on_when_the_slowest_subscriber_has_delivered(stream: Stream) -> None:
    stream.limits = RetentionLimits(1 << 20, 3600, "wait")
    fill(stream, 0, 1)
    source = stream.source()
    source.receiver().start()
    with pytest.raises(OSError, match=r"waits for subscriber .*alerts/sources/main, which has \d+ events to read"):
        fill(stream, 1, 40)
    index = stream.index
    assert index.first == 0

    end = source.latest(source.start(), EVERYTHING)
    source.commit([end])
    fill(stream, index.events // 2, 5)

    source.receiver().start()
    assert [one.event for one in subscribers(stream.folder)] == [index.events]
    again = source.latest(end, EVERYTHING)
    assert read(source, end, again) == list(range(index.events, index.events + 10))


def test_a_publisher_that_waits_does_not_wait_beyond_the_age(stream: Stream) -> None:
    stream.limits = RetentionLimits(1 << 20, 3600, "wait")
    stream.source().receiver().start()
    with pytest.raises(OSError, match="waits for subscriber"):
        fill(stream, 0, 40)
    stuck = stream.index
    stream.now += 3601

    fill(stream, stuck.events // 2, 1)

    assert stream.index.first_event == stuck.events


def test_a_subscriber_may_begin_at_the_end_or_before_the_stream_exists(stream: Stream) -> None:
    early = stream.source(start="latest")
    nowhere = early.start()
    assert early.latest(nowhere, EVERYTHING) == nowhere
    stream.publish(0, events(0, 10))
    end = early.latest(nowhere, EVERYTHING)
    assert read(early, nowhere, end) == list(range(10))

    late = stream.source(start="latest")
    begin = late.start()
    stream.publish(1, events(10, 12))

    assert read(late, begin, late.latest(begin, EVERYTHING)) == [10, 11]


def test_a_stream_that_was_removed_and_begins_anew_is_not_taken_for_the_old_one(stream: Stream) -> None:
    stream.publish(0, events(0, 10))
    source = stream.source(on_data_loss="continue")
    end = source.latest(source.start(), EVERYTHING)
    stream.kill()
    for path in stream.folder.iterdir():
        path.unlink()
    stream.publish(0, events(100, 150))

    again = source.latest(end, EVERYTHING)

    assert lost(source, end, again) == [
        "data-lost: stream 's' was removed and has begun anew: what had not been read of it before is lost"
    ]
    assert read(source, again["begin"], again) == list(range(100, 150))
    with pytest.raises(ComponentError, match="has begun anew"):
        stream.source().latest(end, EVERYTHING)


def test_fields_are_cast_where_no_value_changes_and_null_where_the_publisher_has_none(stream: Stream) -> None:
    when = datetime(2026, 11, 27, tzinfo=UTC)
    columns = {"n": [1, 2], "at": [when, when + timedelta(seconds=1)], "tags": [["a"], []], "text": ["7", "x"]}
    stream.publish(0, pa.RecordBatch.from_pydict({**columns, OFFSET: [0, 1]}))
    fields = {"tags": "array<string>", "n": "int", "missing": "double", "at": "timestamp"}
    source = stream.source(fields=fields)

    (split,) = source.splits(source.start(), source.latest(source.start(), EVERYTHING), 2)
    (batch,) = source.read(split)

    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist()[0] == {"tags": ["a"], "n": 1, "missing": None, "at": when, OFFSET: 0}
    good, rejected = stream.source(fields={"text": "bigint"}).read(split)
    assert isinstance(good, pa.RecordBatch)
    assert isinstance(rejected, Rejects)
    assert good.to_pylist() == [{"text": 7, OFFSET: 0}]
    assert (rejected.code, rejected.events.column("text").to_pylist()) == ("field-type", ["x"])
    assert rejected.events.column(OFFSET).to_pylist() == [1]
    assert rejected.reasons == "'text' is published as string, and its value is not a bigint"
    (never,) = stream.source(fields={"tags": "bigint"}).read(split)
    assert isinstance(never, Rejects)
    assert never.events.num_rows == 2


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"end": 1}', b"\xff", b'{"segments": [[]]}'])
def test_a_damaged_index_is_an_error_that_says_what_to_do(stream: Stream, damage: bytes) -> None:
    stream.publish(0, events(0, 10))
    stream.kill()
    (stream.folder / NAME).write_bytes(damage)

    with pytest.raises(ComponentError, match="is not a valid index of a stream"):
        stream.open()


def test_damaged_and_missing_events_are_errors(stream: Stream) -> None:
    stream.publish(0, events(0, 10))
    source = stream.source()
    splits = source.splits(source.start(), source.latest(source.start(), EVERYTHING), 1)
    (segment,) = stream.folder.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)

    with pytest.raises(ComponentError, match="is damaged at byte 0"):
        list(source.read(splits[0]))
    stream.kill()
    segment.write_bytes(data[:50])
    with pytest.raises(ComponentError, match="has 50 bytes of"):
        stream.open()


PUBLISHER = """
name: ssh
source: {type: inline, fields: {n: bigint, text: string}, rows: []}
sink: {type: stream, name: logins, folder: streams}
"""
SUBSCRIBER = """
name: alerts
source: {type: stream, name: NAME, folder: streams, fields: {FIELDS}}
sink: {type: discard}
"""


@pytest.mark.parametrize(
    ("name", "fields", "found"),
    [
        ("logins", "n: bigint", None),
        ("login", "n: bigint", (3, 24, "unpublished-stream", "did you mean 'logins'?")),
        ("other", "n: bigint", (3, 24, "unpublished-stream", "add a sink to a pipeline: {type: stream, name: other}")),
        ("logins", "nn: bigint", (3, 64, "unpublished-field", "did you mean 'n'?")),
        ("logins", "n: array<string>", (3, 64, "unpublished-field", "declare it as bigint")),
    ],
)
def test_lint_compares_subscribers_with_publishers_in_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fields: str, found: tuple[object, ...] | None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ssh.yaml").write_text(PUBLISHER)
    Path("alerts.yaml").write_text(SUBSCRIBER.replace("NAME", name).replace("FIELDS", fields))

    problems = [(p.line, p.column, p.code, p.hint) for p in check(["alerts.yaml"])]

    assert problems == ([found] if found else [])


def test_lint_knows_what_a_stream_on_this_machine_has(stream: Stream) -> None:
    stream.publish(0, events(0, 10))

    assert list(stream.source().probe()) == []
    assert [one.code for one in stream.source(fields={"m": "int"}).probe()] == ["unpublished-field"]
    assert [one.code for one in stream.source(name="t").probe()] == ["unpublished-stream"]
