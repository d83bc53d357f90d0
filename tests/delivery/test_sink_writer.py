"""`SinkWriter`: batches, retries and rejects."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import OFFSET, Batching, ComponentError, Rejects, Result, Sink, SplitLostError
from etl.delivery.backoff import NEVER_STOPS, Backoff, RunStopping
from etl.delivery.sink_writer import DeliveryFailedError, SinkWriter


class Recorder:
    """A writer that records batches and returns given results."""

    def __init__(self, answers: list[Result | OSError] | None = None) -> None:
        self.batches: list[list[str]] = []
        self.answers = answers or []
        self.failed: list[bool] = []
        self.closed = False

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.cast(pc.utf8_length(batch.column("m")), pa.int64())

    def write(self, batch: pa.RecordBatch) -> Result:
        self.batches.append(batch.column("m").to_pylist())
        answer = self.answers.pop(0) if self.answers else Result()
        self.failed.append(isinstance(answer, OSError))
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def events(*texts: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"m": list(texts), OFFSET: list(range(len(texts)))})


def sink_writer(writer: Recorder, rejected: list[Rejects] | None = None, **options: object) -> SinkWriter:
    sink = Sink(type="fake", batch=Batching(**options.pop("batch", {})))
    keep = rejected if rejected is not None else []
    backoff = Backoff("sink 'out'", options.pop("is_stopping", NEVER_STOPS), sleep=lambda _: None)
    return SinkWriter("out", sink, writer, keep.append, backoff=backoff, **options)


def test_without_limits_batches_pass_as_they_come() -> None:
    writer = Recorder()
    out = sink_writer(writer)

    out.write(events("a", "b"))
    out.write(events("c"))
    out.close()

    assert writer.batches == [["a", "b"], ["c"]]
    assert out.delivered.flushes == {"as_it_comes": 2}
    assert writer.closed


def test_max_events_divides_and_fills_batches() -> None:
    writer = Recorder()
    out = sink_writer(writer, batch={"max_events": 2})

    out.write(events("a"))
    out.write(events("b", "c", "d", "e"))
    out.close()

    assert writer.batches == [["a", "b"], ["c", "d"], ["e"]]
    assert out.delivered.flushes == {"count": 2, "end_of_batch": 1}
    assert out.delivered.incoming == out.delivered.accepted == 5


def test_max_bytes_counts_encoded_bytes() -> None:
    writer = Recorder()
    out = sink_writer(writer, batch={"max_bytes": 5})

    out.write(events("aa", "bb", "cc", "ddddd"))
    out.close()

    assert writer.batches == [["aa", "bb"], ["cc"], ["ddddd"]]
    assert out.delivered.flushes == {"bytes": 2, "end_of_batch": 1}


def test_both_limits_hold() -> None:
    writer = Recorder()
    out = sink_writer(writer, batch={"max_bytes": 100, "max_events": 3})

    out.write(events(*"abcdefg"))
    out.close()

    assert writer.batches == [["a", "b", "c"], ["d", "e", "f"], ["g"]]


def test_an_event_larger_than_max_bytes_is_a_dead_letter() -> None:
    writer, rejected = Recorder(), []
    out = sink_writer(writer, rejected, batch={"max_bytes": 3})

    out.write(events("aa", "toolong", "b"))
    out.close()

    assert writer.batches == [["aa", "b"]]
    assert rejected[0].code == "event-too-large"
    assert rejected[0].events.column("m").to_pylist() == ["toolong"]
    assert rejected[0].reasons.to_pylist() == ["7 bytes encoded, more than batch.max_bytes (3)"]
    assert (out.delivered.incoming, out.delivered.accepted, out.delivered.dead) == (3, 2, 1)


def test_timeout_writes_a_buffer_that_does_not_fill() -> None:
    writer, now = Recorder(), [0.0]
    out = sink_writer(writer, batch={"max_events": 10, "timeout": timedelta(seconds=1)}, clock=lambda: now[0])

    out.write(events("a"))
    now[0] = 2.0
    out.write(events("b"))

    assert writer.batches == [["a", "b"]]
    assert out.delivered.flushes == {"timeout": 1}


def test_only_failed_events_are_retried() -> None:
    writer = Recorder([Result(retryable=pa.array([1, 2]), cause="429"), Result(retryable=pa.array([1]), cause="429")])
    out = sink_writer(writer)

    out.write(events("a", "b", "c"))

    assert writer.batches == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert out.delivered.accepted == 3
    assert out.delivered.retries == 2


def test_rejected_events_are_dead_letters_and_the_others_accepted() -> None:
    batch, rejected = events("a", "b"), []
    writer = Recorder([Result(rejected=(Rejects(batch.slice(1), "bad-document", "no"),))])
    out = sink_writer(writer, rejected)

    out.write(batch)

    assert rejected[0].events.column("m").to_pylist() == ["b"]
    assert (out.delivered.accepted, out.delivered.dead) == (1, 1)


def test_the_error_after_the_last_attempt_has_the_cause() -> None:
    writer = Recorder([OSError(28, "No space left on device")] * 3)
    out = sink_writer(writer, attempts=3)

    with pytest.raises(
        DeliveryFailedError, match=r"sink 'out' did not take 2 events in 3 attempts: .*No space left on device"
    ) as message:
        out.write(events("a", "b"))

    assert len(writer.batches) == 3
    assert message.value.summary.startswith("[Errno 28] No space left on device; free disk space"), "for a run that goes on"


def test_without_attempts_it_retries_until_the_sink_accepts_events() -> None:
    writer = Recorder([OSError("down")] * 50)
    out = sink_writer(writer)

    out.write(events("a", "b"))

    assert (out.delivered.accepted, out.delivered.retries) == (2, 50)


def test_the_pause_that_a_sink_requests_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    slept: list[float] = []
    out = sink_writer(Recorder([Result(retryable=pa.array([0]), cause="429", after=12.0)]))
    out.backoff.sleep = slept.append

    out.write(events("a"))

    assert sum(slept) == pytest.approx(12.0)
    assert "sink 'out': 429; trying again in 12 s (1st time)" in caplog.text


def test_the_end_of_the_run_ends_the_retries() -> None:
    tries = iter([False, False, True])
    out = sink_writer(Recorder([OSError("down")] * 9), is_stopping=lambda: next(tries, True))

    with pytest.raises(RunStopping, match="the run stops while sink 'out' does not answer"):
        out.write(events("a"))


@pytest.mark.parametrize(("attempts", "expected"), [(None, SplitLostError), (3, DeliveryFailedError)])
def test_a_lost_split_is_not_retried_by_the_writer(attempts: int | None, expected: type[Exception]) -> None:
    writer = Recorder([SplitLostError("connection reset")])

    with pytest.raises(expected, match="sink 'out': connection reset"):
        sink_writer(writer, attempts=attempts).write(events("a"))

    assert len(writer.batches) == 1


def test_an_error_while_closing_loses_the_split() -> None:
    class Breaking(Recorder):
        def close(self) -> None:
            raise ConnectionResetError("connection reset")

    out = sink_writer(Breaking())
    out.write(events("a"))

    with pytest.raises(SplitLostError, match="sink 'out': connection reset"):
        out.close()


def test_an_error_that_ends_the_run_names_the_sink() -> None:
    class Refusing(Recorder):
        def write(self, batch: pa.RecordBatch) -> Result:
            raise ComponentError("h:9200 answers 401; see user and password")

        def close(self) -> None:
            raise ComponentError("no space")

    out = sink_writer(Refusing())

    with pytest.raises(ComponentError, match=r"^sink 'out': h:9200 answers 401; see user and password$"):
        out.write(events("a"))
    with pytest.raises(ComponentError, match=r"^sink 'out': no space$"):
        out.close()


def test_the_last_flush_of_a_stopping_run_has_the_reason_shutdown() -> None:
    out = sink_writer(Recorder(), batch={"max_events": 9}, is_stopping=lambda: True)

    out.write(events("a"))
    out.close()

    assert out.delivered.flushes == {"shutdown": 1}


def test_the_timeout_works_without_new_events() -> None:
    writer, now = Recorder(), [0.0]
    out = sink_writer(writer, batch={"max_events": 10, "timeout": timedelta(seconds=1)}, clock=lambda: now[0])

    out.write(events("a"))
    out.tick()
    now[0] = 1.5
    out.tick()

    assert (writer.batches, out.delivered.flushes) == ([["a"]], {"timeout": 1})


@settings(max_examples=300, deadline=None)
@given(
    incoming=st.lists(st.lists(st.integers(0, 12), max_size=12), max_size=8),
    max_bytes=st.none() | st.integers(1, 20),
    max_events=st.none() | st.integers(1, 6),
    failures=st.lists(st.booleans(), max_size=10),
)
def test_no_write_exceeds_its_limits_and_every_event_is_written_once_in_order(
    incoming: list[list[int]], max_bytes: int | None, max_events: int | None, failures: list[bool]
) -> None:
    writer, rejected = Recorder([OSError("down") if failed else Result() for failed in failures]), []
    out = sink_writer(writer, rejected, batch={"max_bytes": max_bytes, "max_events": max_events})
    texts = [[chr(97 + (place + n) % 26) * size for n, size in enumerate(sizes)] for place, sizes in enumerate(incoming)]

    for batch in texts:
        out.write(events(*batch)) if batch else out.tick()
    out.close()

    flat = [text for batch in texts for text in batch]
    fitting = [text for text in flat if max_bytes is None or len(text) <= max_bytes]
    assert all(max_events is None or len(batch) <= max_events for batch in writer.batches)
    assert all(max_bytes is None or sum(map(len, batch)) <= max_bytes for batch in writer.batches)
    taken = [text for batch, failed in zip(writer.batches, writer.failed, strict=True) if not failed for text in batch]
    assert taken == fitting
    assert out.delivered.dead == len(flat) - len(fitting) == sum(r.events.num_rows for r in rejected)
    assert out.delivered.incoming == out.delivered.accepted + out.delivered.dead == len(flat)
    assert sum(out.delivered.flushes.values()) == writer.failed.count(False)


def test_string_views_are_strings_when_they_are_retried() -> None:
    writer = Recorder([Result(retryable=pa.array([1]), cause="429")])

    sink_writer(writer).write(
        pa.record_batch({"m": pa.array(["a", "longer than twelve bytes"], pa.string_view()), OFFSET: [0, 1]})
    )

    assert writer.batches == [["a", "longer than twelve bytes"], ["longer than twelve bytes"]]


@pytest.mark.parametrize(("limits", "expected"), [({}, True), ({"max_events": 9}, False), ({"max_bytes": 9}, False)])
def test_string_views_are_passed_only_without_batch_limits(limits: dict[str, int], expected: bool) -> None:
    class Taker(Sink):
        """A sink that accepts string views."""

        takes_views = True

    assert SinkWriter("out", Taker(type="taker", batch=Batching(**limits)), Recorder(), lambda _: None).takes_views is expected
    assert not sink_writer(Recorder(), batch=limits).takes_views
