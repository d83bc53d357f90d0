"""Planning of micro-batches and splits, and pulling a range in parts."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.rocketmq import batch_planner
from connectors.rocketmq.protocol.cluster import OffsetBounds
from connectors.rocketmq.protocol.codes import BusyError
from connectors.rocketmq.protocol.frames import Response
from connectors.rocketmq.protocol.routes import Queue
from connectors.rocketmq.puller import MAX_PENDING, LostRange, Puller
from connectors.rocketmq.queue_offsets import QueueOffsets
from etl.api import Limit

A, B, C = (Queue("broker-a", "web", number) for number in range(3))
ALL = Limit(1 << 60)


def plan_batch(start: QueueOffsets, held: dict[Queue, OffsetBounds], limit: Limit = ALL) -> QueueOffsets:
    """Plan a batch, and convert it to JSON and back, as checkpoints do."""
    found = batch_planner.plan_batch(start, held, limit)
    return QueueOffsets.from_json(json.loads(json.dumps(found.to_json())))


def ranges(start: QueueOffsets, end: QueueOffsets, parallelism: int = 1) -> list[tuple[str, int, int]]:
    return [(split.partition, split.start, split.end) for split in batch_planner.plan_splits(start, end, parallelism)]


def test_a_batch_ends_at_the_last_messages() -> None:
    start = QueueOffsets({A: 5, B: 0})

    end = plan_batch(start, {A: OffsetBounds(0, 9), B: OffsetBounds(0, 0)})

    assert end == QueueOffsets({A: 9, B: 0})
    assert ranges(start, end) == [("broker-a/web/0", 5, 9)]


def test_nothing_new_is_the_same_position() -> None:
    start = QueueOffsets({A: 9, B: 3}, {B: 1}, {B: 1})

    assert batch_planner.plan_batch(start, {A: OffsetBounds(0, 9), B: OffsetBounds(2, 3)}, ALL) is start


def test_a_new_queue_is_read_from_its_first_message() -> None:
    start = QueueOffsets({A: 9})

    end = plan_batch(start, {A: OffsetBounds(0, 9), B: OffsetBounds(4, 6), C: OffsetBounds(0, 0)})

    assert end == QueueOffsets({A: 9, B: 6}, {B: 4})
    assert ranges(start, end) == [("broker-a/web/1", 4, 6)]


def test_the_offset_of_a_queue_stays_while_its_broker_is_down() -> None:
    assert plan_batch(QueueOffsets({A: 9, B: 3}), {A: OffsetBounds(0, 10)}).queues == {A: 10, B: 3}


def test_messages_that_were_deleted_before_reading_are_reported_once() -> None:
    start, held = QueueOffsets({A: 5, B: 0}), {A: OffsetBounds(8, 20), B: OffsetBounds(0, 0)}

    end = plan_batch(start, held)

    assert list(batch_planner.find_read_starts(start, held).lost) == [A]
    (split,) = batch_planner.plan_splits(start, end, 1)
    assert (split.partition, split.start, split.end) == ("broker-a/web/0", 8, 20)
    assert split.detail == (A, LostRange(5, 8, batch_planner.expired_message(5, 8)))
    assert batch_planner.plan_splits(end, plan_batch(end, {A: OffsetBounds(8, 21)}), 1)[0].detail == (A, None)


def test_a_queue_that_was_created_again_is_another_partition() -> None:
    """The same offsets are other messages then."""
    start = QueueOffsets({A: 50})

    end = plan_batch(start, {A: OffsetBounds(0, 3)})
    after = plan_batch(end, {A: OffsetBounds(0, 7)})

    assert ranges(start, end) == [("broker-a/web/0#1", 0, 3)]
    assert batch_planner.plan_splits(start, end, 1)[0].detail[1] == LostRange(50, 0, batch_planner.recreated_message(50))
    assert ranges(end, after) == [("broker-a/web/0#1", 3, 7)]


def test_a_replica_that_lags_has_nothing_new() -> None:
    start = QueueOffsets({A: 50})

    assert batch_planner.plan_batch(start, {A: OffsetBounds(0, 48, master=False)}, ALL) is start
    assert not batch_planner.find_read_starts(start, {A: OffsetBounds(0, 48, master=False)}).lost


def test_a_loss_without_later_messages_has_a_split_for_its_dead_letter() -> None:
    start = QueueOffsets({A: 50})

    end = plan_batch(start, {A: OffsetBounds(0, 0)})

    assert ranges(start, end) == [("broker-a/web/0#1", 0, 0)]
    assert batch_planner.plan_batch(end, {A: OffsetBounds(0, 0)}, ALL) is end


def test_a_bounded_run_ends_at_its_target() -> None:
    start = QueueOffsets({A: 0, B: 0})
    until = plan_batch(start, {A: OffsetBounds(0, 10), B: OffsetBounds(0, 20)}).to_json()

    first = plan_batch(
        start, {A: OffsetBounds(0, 90), B: OffsetBounds(0, 90), C: OffsetBounds(0, 90)}, Limit(1 << 60, 25, until=until)
    )
    second = plan_batch(
        first, {A: OffsetBounds(0, 90), B: OffsetBounds(0, 90), C: OffsetBounds(0, 90)}, Limit(1 << 60, 25, until=until)
    )

    assert (first.queues, second.queues) == ({A: 10, B: 15}, {A: 10, B: 20})
    assert (
        batch_planner.plan_batch(second, {A: OffsetBounds(0, 95), B: OffsetBounds(0, 90)}, Limit(1 << 60, until=until)) is second
    )


def test_bytes_are_counted_by_the_mean_of_events() -> None:
    end = plan_batch(QueueOffsets({A: 0}), {A: OffsetBounds(0, 1000)}, Limit(5000, event_bytes=100.0))

    assert end.queues == {A: 50}


@given(st.dictionaries(st.builds(Queue, st.just("b"), st.just("t"), st.integers(0, 9)), st.integers(0, 50)), st.integers(0, 200))
def test_messages_are_divided_fairly(there: dict[Queue, int], max_messages: int) -> None:
    granted = batch_planner.share_fairly(there, max_messages)

    assert sum(granted.values()) == min(max_messages, sum(there.values()))
    assert all(0 <= granted[queue] <= there[queue] for queue in there)
    hungry = [granted[queue] for queue in there if granted[queue] < there[queue]]
    assert not hungry or max(granted.values()) - min(hungry) <= 1, "a queue that has more got less than another"


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 100_000)), min_size=1, max_size=6), st.integers(1, 8))
def test_splits_cover_a_batch_once_and_in_order(bounds: list[tuple[int, int]], parallelism: int) -> None:
    queues = [Queue("b", "t", number) for number in range(len(bounds))]
    start = QueueOffsets({queue: min(pair) for queue, pair in zip(queues, bounds, strict=True)})
    end = QueueOffsets({queue: max(pair) for queue, pair in zip(queues, bounds, strict=True)})

    found = ranges(start, end, parallelism)

    assert found == sorted(found)
    for queue in queues:
        mine = [(a, b) for name, a, b in found if name == queue.name]
        assert sum(b - a for a, b in mine) == end.queues[queue] - start.queues[queue]
        assert all(b == c for (_, b), (c, _) in pairwise(mine))
    assert len(found) <= parallelism + len(queues)


class FakeBroker:
    """A connection to a broker whose queue holds offsets in some range, and which gives at most so many at once; with
    ``filtered`` it skips over what is not a multiple of five. A body is the offsets that it holds."""

    address = "fake:1"

    def __init__(self, smallest: int, largest: int, max_messages: int, filtered: bool = False) -> None:
        self.smallest, self.largest, self.max_messages, self.filtered = smallest, largest, max_messages, filtered
        self.asked: dict[int, tuple[int, int]] = {}
        self.waiting = self.deepest = self.requests = 0

    def send(self, code: int, fields: dict[str, str], body: bytes = b"") -> int:
        self.requests += 1
        self.waiting += 1
        self.deepest = max(self.deepest, self.waiting)
        self.asked[self.requests] = int(fields["queueOffset"]), int(fields["maxMsgNums"])
        return self.requests

    def receive(self, number: int) -> Response:
        self.waiting -= 1
        begin, count = self.asked.pop(number)
        there = range(max(begin, self.smallest), min(self.largest, begin + 50))
        given = [at for at in there if not self.filtered or at % 5 == 0][: min(count, self.max_messages)]
        after = given[-1] + 1 if given else there.stop
        fields = {"nextBeginOffset": str(after), "minOffset": str(self.smallest), "maxOffset": str(self.largest)}
        if begin < self.smallest or begin > self.largest:
            return Response(number, 21, "", fields, b"")
        if begin == self.largest:
            return Response(number, 19, "", fields, b"")
        return Response(number, 0 if given else 20, "", fields, " ".join(map(str, given)).encode())


def pulled(broker: FakeBroker, start: int, end: int, master: bool = True) -> list[int | LostRange]:
    """Return the growing offsets that a reader yields within the range."""
    found: list[int | LostRange] = []
    after = start - 1
    for body in Puller(broker, A, {}, master).pull(start, end):  # type: ignore[arg-type]
        if isinstance(body, LostRange):
            found.append(body)
            continue
        for at in map(int, body.split()):
            if after < at < end:
                found.append(at)
                after = at
    return found


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 300), st.integers(0, 700), st.integers(1, 60), st.booleans())
def test_a_range_is_pulled_completely_and_once(start: int, count: int, max_messages: int, filtered: bool) -> None:
    broker = FakeBroker(0, start + count + 10, max_messages, filtered)

    found = pulled(broker, start, start + count)

    assert found == [at for at in range(start, start + count) if not filtered or at % 5 == 0]
    assert not broker.asked or filtered, "answers that nobody waited for"


def test_several_requests_are_in_flight_and_few_are_wasted() -> None:
    broker = FakeBroker(0, 10_000, 32)

    assert pulled(broker, 0, 10_000) == list(range(10_000))
    assert broker.deepest <= MAX_PENDING + 1
    assert broker.requests < 10_000 / 32 * 1.05


def test_expired_messages_are_reported_and_the_rest_is_read() -> None:
    assert pulled(FakeBroker(20, 100, 32), 10, 40) == [
        LostRange(10, 20, "the broker has deleted the messages before offset 20"),
        *range(20, 40),
    ]


def test_a_queue_that_ends_too_early_is_reported() -> None:
    found = pulled(FakeBroker(0, 20, 32), 10, 40)

    assert found[:-1] == list(range(10, 20))
    assert isinstance(found[-1], LostRange)
    assert (found[-1].begin, found[-1].end) == (20, 40)


def test_a_lagging_replica_is_pulled_again() -> None:
    with pytest.raises(BusyError, match="does not deliver offset 20 now"):
        pulled(FakeBroker(0, 20, 32), 10, 40, master=False)


def test_a_broker_without_progress_is_busy() -> None:
    class Stuck(FakeBroker):
        def receive(self, number: int) -> Response:
            begin, _ = self.asked.pop(number)
            return Response(number, 20, "", {"nextBeginOffset": str(begin)}, b"")

    with pytest.raises(BusyError, match="does not advance from offset 10"):
        pulled(Stuck(0, 100, 32), 10, 40)
