"""Stateful steps after others go by any time; lint says at the step where no plan can be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.config import check

FRONT = "source: {type: generate}\nsteps:\n  - {type: window, size: 1m, aggregates: {n: count(*)}}\n"
CORRELATE = (
    "  - type: correlate\n    time: window_start\n    rules: [{name: many, where: n > 5}]\n    correlations:\n"
    "      - {title: B, correlation: {type: event_count, rules: [many], group-by: [n], timespan: 10m, condition: {gte: 5}}}\n"
)


def problems(folder: Path, text: str) -> list[tuple[int, str, str]]:
    path = folder / "p.yaml"
    path.write_text(text)
    return [(found.line, found.code, found.message) for found in check([path])]


@pytest.mark.parametrize(
    "step",
    [
        "{type: window, time: window_start, size: 1h, emit: on_change, aggregates: {m: sum(n)}}",
        "{type: window, time: window_end, size: 1h, aggregates: {m: sum(n)}}",
        "{type: window, size: 1h, aggregates: {m: sum(n)}}",
        "{type: dedupe, keys: [n], within: 1h}",
        "{type: suppress, keys: [n], within: 1h}",
    ],
)
def test_any_step_after_a_window_is_good(tmp_path: Path, step: str) -> None:
    assert problems(tmp_path, f"{FRONT}  - {step}\n") == []


READING = "source: {type: generate}\nsteps:\n  - {type: over, keys: [message], within: 1h, aggregates: {m: count(*)}}\n"


@pytest.mark.parametrize(
    "step",
    [
        "{type: suppress, keys: [message], within: 1h}",
        "{type: window, size: 1h, aggregates: {k: count(*)}}",
        "{type: dedupe, keys: [message], time: created_at, within: 1h}",
        "{type: window, time: created_at, size: 1h, aggregates: {k: sum(m)}}",
    ],
)
def test_any_step_after_one_by_the_time_of_reading_is_good(tmp_path: Path, step: str) -> None:
    time = "  - {type: set, fields: {created_at: current_timestamp()}}\n"

    assert problems(tmp_path, f"{READING.replace('steps:', f'steps:{chr(10)}{time}'.rstrip())}  - {step}\n") == []


def test_a_step_after_one_by_the_same_event_time_is_good(tmp_path: Path) -> None:
    text = READING.replace("within", "time: at, within").replace(
        "steps:\n", "steps:\n  - {type: set, fields: {at: current_timestamp()}}\n"
    )

    assert problems(tmp_path, text + "  - {type: suppress, keys: [message], time: at, within: 1h}\n") == []


@pytest.mark.parametrize("length", ["size: 1h", "gap: 1h"])
def test_a_window_after_a_window_by_its_start_is_good(tmp_path: Path, length: str) -> None:
    assert problems(tmp_path, f"{FRONT}  - {{type: window, time: window_start, {length}, aggregates: {{m: sum(n)}}}}\n") == []


def test_correlate_after_a_window_is_good(tmp_path: Path) -> None:
    assert problems(tmp_path, FRONT + CORRELATE) == []


def test_a_window_after_correlate_is_good(tmp_path: Path) -> None:
    window = "  - {type: window, time: last_seen, size: 1h, aggregates: {m: count(*)}}\n"
    front = "source: {type: generate}\nsteps:\n  - {type: set, fields: {n: '7', window_start: current_timestamp()}}\n"

    assert problems(tmp_path, front + CORRELATE + window) == []


BETWEEN = FRONT + '  - {type: sql, query: "select * from events lateral view explode(array(1, 2)) v as item"}\n'


@pytest.mark.parametrize(
    "step",
    [
        "{type: dedupe, keys: item, time: window_start, within: 1h}",
        "{type: window, time: window_start, size: [1h, 1d], aggregates: {m: sum(n)}}",
        "{type: window, time: window_start, gap: 1h, aggregates: {m: sum(n)}}",
    ],
)
def test_spark_computes_steps_between_stateful_steps(tmp_path: Path, step: str) -> None:
    assert problems(tmp_path, f"{BETWEEN}  - {step}\n") == []


@pytest.mark.parametrize("step", ["{type: dedupe, keys: n, time: window_start, within: 1h}", "{type: join, on: n, within: 1h}"])
def test_a_source_that_spark_reads_beside_results_is_good(tmp_path: Path, step: str) -> None:
    text = (
        "sources: {a: {type: generate}, b: {type: spark, format: rate, streaming: true}}\nstreams:\n"
        "  one: {from: a, steps: [{type: window, size: 1m, aggregates: {n: count(*)}}]}\n"
        "  two: {from: b, steps: [{type: rename, fields: {timestamp: window_start, value: n}}]}\n"
        f"  both: {{from: [one, two], steps: [{step}]}}\n"
        "sinks: {o: {from: both, type: discard}}\n"
    )

    assert problems(tmp_path, text) == []
