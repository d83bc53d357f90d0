"""Pauses after failures, their messages, and reading a split again after an error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import Rejects, Retry
from etl.delivery.backoff import Backoff, RunStopping, read_with_retries
from etl.delivery.notices import DUPLICATE_SECONDS, MAX_REMEMBERED_TEXTS, Notice, NoticeLimiter, format_duration, ordinal

QUICK = Retry(initial_backoff=timedelta(seconds=1), max_backoff=timedelta(seconds=4))


def test_pauses_double_up_to_their_limit_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    slept: list[float] = []
    backoff = Backoff("source 'log'", retry=QUICK, sleep=slept.append)

    max_pause_seconds, pauses = [], []
    for _ in range(5):
        before = sum(slept)
        backoff.wait(ConnectionRefusedError("localhost:9092 refused the connection"))
        max_pause_seconds.append(backoff.max_pause_seconds)
        pauses.append(sum(slept) - before)

    assert max_pause_seconds == [1, 2, 4, 4, 4]
    assert all(pause <= maximum for pause, maximum in zip(pauses, max_pause_seconds, strict=True))
    assert "source 'log': localhost:9092 refused the connection; trying again in" in caplog.text
    assert "(4th time, since " in caplog.text


@pytest.mark.parametrize(("minimum", "expected"), [(3.0, 3.0), (86400.0, 4.0), (-9.0, 0.0)])
def test_a_pause_has_the_minimum_that_a_server_requests_within_the_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, minimum: float, expected: float
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: low)
    slept: list[float] = []

    Backoff("sink 'hook'", retry=QUICK, sleep=slept.append).wait("429", minimum)

    assert sum(slept) == pytest.approx(expected)
    assert f"trying again in {format_duration(expected)} (" in caplog.text


def test_retry_until_done_returns_the_result_of_the_last_attempt(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[object] = [OSError("down"), TimeoutError(), "here"]

    def ask() -> object:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    assert Backoff("source 'log'", sleep=lambda _: None).retry_until_done(ask) == "here"
    assert "TimeoutError; trying again" in caplog.text
    assert "source 'log': works again after" in caplog.text


def test_a_pause_ends_with_the_run() -> None:
    retry = Retry(initial_backoff=timedelta(hours=9), max_backoff=timedelta(hours=9))
    looks = iter([False, False, True])
    slept: list[float] = []
    backoff = Backoff("source 'log'", lambda: next(looks, True), retry, sleep=slept.append)

    with pytest.raises(RunStopping):
        backoff.wait("down")

    assert len(slept) <= 2


@settings(max_examples=100, deadline=None)
@given(
    cuts=st.lists(st.lists(st.integers(1, 5), max_size=6), min_size=1, max_size=4),
    refused=st.sets(st.integers(0, 19)),
)
def test_a_split_that_fails_is_read_again_without_repeats(cuts: list[list[int]], refused: set[int]) -> None:
    """Each read of the split yields the same events, in other batches."""
    readings = iter([*cuts, [3] * 7])
    last = [False]

    def read() -> Iterator[pa.RecordBatch | Rejects]:
        sizes = next(readings)
        at = 0
        for size in sizes:
            numbers = range(at, min(at + size, 20))
            good, bad = [n for n in numbers if n not in refused], [n for n in numbers if n in refused]
            yield pa.RecordBatch.from_pydict({"n": pa.array(good, pa.int64())})
            if bad:
                yield Rejects(pa.RecordBatch.from_pydict({"n": pa.array(bad)}), "bad", pa.array([f"is {n}" for n in bad]))
            at += size
        if at < 20:
            raise ConnectionResetError("connection reset")
        last[0] = True

    batches = list(read_with_retries(read, Backoff("source 'log'", sleep=lambda _: None)))

    kept = [n for batch in batches if not isinstance(batch, Rejects) for n in batch.column("n").to_pylist()]
    rejects = [batch for batch in batches if isinstance(batch, Rejects)]
    assert last[0]
    assert kept == [n for n in range(20) if n not in refused]
    assert [n for r in rejects for n in r.events.column("n").to_pylist()] == sorted(refused)
    assert [text for r in rejects for text in r.reasons.to_pylist()] == [f"is {n}" for n in sorted(refused)]


def notice(cause: str, seconds: float = 9.0, subject: str = "sink 'x'") -> Notice:
    return Notice(subject, cause, 2, seconds, 1.0)


def test_a_failure_is_shown_once_then_when_it_changes_and_then_rarely() -> None:
    now = [0.0]
    limiter = NoticeLimiter(clock=lambda: now[0])

    message = []
    for at in range(0, 400, 10):
        now[0] = at
        if limiter.should_show(notice(f"port {at} refused the connection")):
            message.append(at)

    assert message == [0, 60, 180]
    assert limiter.should_show(notice("timed out"))
    assert limiter.should_show(notice("timed out", subject="sink 'y'"))


def test_the_end_of_a_long_failure_is_shown_once() -> None:
    limiter = NoticeLimiter()

    assert not limiter.should_show(notice(""))
    assert limiter.should_show(notice("timed out"))
    assert not limiter.should_show(notice("", seconds=0.5))
    assert limiter.should_show(notice("", seconds=5))
    assert not limiter.should_show(notice("", seconds=5))


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.04, "0.0 s"), (7.96, "8.0 s"), (59, "59 s"), (61, "1 min"), (7300, "2 h"), (2e5, "2 days")]
)
def test_durations_are_formatted_short(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected


def test_ordinals() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 113)] == ["1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "113th"]


def test_equal_messages_of_two_processes_are_shown_once() -> None:
    now = [100.0]
    limiter = NoticeLimiter(lambda: now[0])

    first = [limiter.is_duplicate("a rule is bad", process) for process in (1, 2, 3, 1)]
    now[0] += DUPLICATE_SECONDS + 1
    later = [limiter.is_duplicate("a rule is bad", process) for process in (2, 1)]

    assert (first, later) == ([False, True, True, False], [False, True])
    assert not limiter.is_duplicate("another rule is bad", 2)


def test_the_number_of_remembered_messages_is_bounded() -> None:
    limiter = NoticeLimiter()
    for number in range(3 * MAX_REMEMBERED_TEXTS):
        limiter.is_duplicate(f"text {number}", 1)

    assert len(limiter._recent_texts) == MAX_REMEMBERED_TEXTS
    assert limiter.is_duplicate(f"text {3 * MAX_REMEMBERED_TEXTS - 1}", 2)


def test_other_messages_are_always_shown() -> None:
    from etl.spark.reports.log_relay import LogRelay, forward_driver_logs

    heard: list[tuple[str, str]] = []
    with forward_driver_logs(LogRelay(logging.WARNING, lambda level, text, _: heard.append((level, text)))):
        log = logging.getLogger("sluice.test")
        log.warning("one")
        log.info("too low")
        log.warning("one")
        for _ in range(2):
            log.warning("%s", notice("down"), extra={"notice": notice("down")})

    assert [level for level, _ in heard] == ["warning"] * 3
    assert [text for _, text in heard][:2] == ["one", "one"]
