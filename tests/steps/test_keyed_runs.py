"""`dedupe` and `throttle` in runs: time of arrival, idle sources, late events, and what `etl explain` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from running import Engine, Etl, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
    source: {{type: file, path: "{{here}}/in.jsonl"}}
    steps:
      - {{type: json, fields: {{host: string, at: timestamp, n: bigint}}}}
      - {step}
    sink: {{type: file, path: "{{here}}/out.jsonl"}}
    """


def _add(folder: Path, *events: tuple[str, int | None, int]) -> None:
    """Add events: host, second, number."""
    with (folder / "in.jsonl").open("a") as file:
        for host, second, n in events:
            at = None if second is None else f"2026-01-01T00:00:{second:02}Z"
            file.write(json.dumps({"host": host, "at": at, "n": n}) + "\n")


def _passed(folder: Path, *fields: str) -> Sequence[Any]:
    path = folder / "out.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return sorted(tuple(row[field] for field in fields) for row in rows)


def test_without_a_time_the_time_of_reading_counts(engine: Engine) -> None:
    folder = engine.etl.folder
    pipeline = PIPELINE.format(step="{type: dedupe, keys: [host], within: 1h}")

    _add(folder, ("a", 9, 1), ("b", None, 2), ("a", 1, 3))
    engine(pipeline)
    _add(folder, ("a", 50, 4), ("c", 1, 5))
    totals = engine(pipeline)

    assert _passed(folder, "n") == [(1,), (2,), (5,)]
    assert (totals.dead, sum(totals.late.values())) == (0, 0)


def test_a_key_passes_again_when_its_time_of_reading_is_later(engine: Engine) -> None:
    folder = engine.etl.folder
    pipeline = PIPELINE.format(step="{type: dedupe, keys: [host], within: 1ms}")

    for n in (1, 3):
        _add(folder, ("a", 1, n), ("a", 1, n + 1))
        engine(pipeline)

    assert _passed(folder, "n") == [(1,), (3,)]


def test_waiting_events_pass_when_the_source_is_idle(engine: Engine) -> None:
    folder = engine.etl.folder
    _add(folder, ("a", 1, 1), ("a", 2, 2), ("b", 2, 3))

    step = "{type: dedupe, keys: [host], time: at, within: 1h, keep: last, count: repeats, idle: 1s}"
    with engine.following(PIPELINE.format(step=step)):
        wait_for(lambda: bool(_passed(folder, "n")), what="the events that wait")

    assert _passed(folder, "n", "repeats") == [(2, 2), (3, 1)]


def test_running_values_go_on_after_a_restart_and_pass_when_the_source_is_idle(engine: Engine) -> None:
    folder = engine.etl.folder
    step = "{type: over, keys: [host], time: at, idle: 1s, aggregates: {total: sum(n), before: lag(n)}}"
    pipeline = PIPELINE.format(step=step)
    _add(folder, ("a", 1, 1), ("a", 20, 2), ("b", 5, 4))
    engine(pipeline)

    _add(folder, ("a", 15, 8), ("b", 21, 16))
    with engine.following(pipeline):
        wait_for(lambda: len(_passed(folder, "n")) == 5, what="the events that wait")

    assert _passed(folder, "n", "total") == [(1, 1), (2, 11), (4, 4), (8, 9), (16, 20)]
    assert [before for _, before in _passed(folder, "n", "before")] == [None, 8, None, 1, 4]


def test_waiting_events_pass_on_the_clock_without_a_time(engine: Engine) -> None:
    folder = engine.etl.folder
    _add(folder, ("a", 1, 1), ("a", 2, 2))

    with engine.following(PIPELINE.format(step="{type: dedupe, keys: [host], within: 1s, keep: last}")):
        wait_for(lambda: bool(_passed(folder, "n")), what="the event that waits")

    assert _passed(folder, "n") == [(2,)]


@pytest.mark.parametrize(
    "step",
    [
        "{type: dedupe, keys: [host], time: at, within: 5s, late: 0s}",
        "{type: throttle, keys: [host], time: at, limit: 1, every: 5s, late: 0s}",
    ],
    ids=["dedupe", "throttle"],
)
def test_late_events_are_counted(step: str, engine: Engine) -> None:
    folder, pipeline = engine.etl.folder, PIPELINE.format(step=step)
    _add(folder, ("a", 1, 1), ("a", 30, 2))
    engine(pipeline)

    _add(folder, ("a", 12, 3), ("b", 13, 4), ("c", None, 5), ("b", 31, 6))
    running = engine.service(pipeline, once=True)
    totals = running.finished()

    assert (list(totals.late.values()), totals.dead) == ([2], 1)
    assert "2 events came too late for their step and were dropped" in running.output
    assert _passed(folder, "n") == [(1,), (2,), (6,)]


def test_explain_names_time_and_state(etl: Etl) -> None:
    steps = {
        "{type: dedupe, keys: [host], within: 10m}": "watermark: time of reading, 0 s late at most\n",
        "{type: dedupe, keys: [host], time: at, within: 10m, count: repeats, idle: 5s}": (
            "watermark: at, 10 s late at most; idle after 5 s: what is open closes\n"
        ),
        "{type: throttle, keys: [host], time: at, limit: 2, every: 1m, late: 1m}": "watermark: at, 60 s late at most\n",
        "{type: over, keys: [host], aggregates: {total: sum(n)}}": "watermark: time of reading, 0 s late at most\n",
    }

    for step, watermark in steps.items():
        ran = etl.here("explain", etl.pipeline(PIPELINE.format(step=step)))

        assert ran.status == 0, ran.err
        assert watermark in ran.out
        assert "Arrow, keeps state in 16 parts" in ran.out
        assert "exactly once" in ran.out


def test_drain_gives_what_waits_after_a_throttle(engine: Engine) -> None:
    folder = engine.etl.folder
    throttle = "{type: throttle, keys: [host], time: at, limit: 2, every: 10s, late: 1s}"
    last = "{type: dedupe, keys: [host], time: at, within: 5s, keep: last, late: 1s}"
    _add(folder, ("a", 11, 1), ("a", 12, 2), ("a", 13, 3), ("b", 12, 4))

    engine(PIPELINE.format(step=f"{throttle}\n      - {last}"), drain=True)

    assert _passed(folder, "n") == [(2,), (4,)]
