"""Samples: a viewer gets a few events, and the task never waits for him."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from etl.api import EtlError
from etl.running.samples import EVENTS_OF_SPLIT, Tap
from etl.segment import taps as segment_taps
from etl.segment.taps import MAX_FILES, Taps

EVENTS = pa.record_batch({"n": range(10_000), "user.name": ["x"] * 10_000, "_offset": range(10_000)})


def run_split(folder: Path, *batches: pa.RecordBatch) -> None:
    """What a task does."""
    taps = Taps.open(folder)
    if taps is not None:
        for batch in batches:
            taps.take("steps[0] filter", batch)
        taps.write()


def numbers(tap: Tap) -> list[int]:
    return [number for batch in tap.read() for number in batch.column("n").to_pylist()]


def test_the_first_events_of_a_split_are_copied_without_hidden_fields(tmp_path: Path) -> None:
    tap = Tap(tmp_path / "taps", ("steps[0] filter",), None, 5)

    run_split(tmp_path / "taps", EVENTS.slice(7, 3), EVENTS)

    (first, second) = tap.read()
    assert first.schema.names == ["n", "user.name"]
    assert [first.column("n").to_pylist(), second.column("n").to_pylist()] == [[7, 8, 9], [0, 1]]
    assert list(tap.read()) == []
    tap.close()
    assert list(tmp_path.iterdir()) == []


def test_a_condition_is_looked_for_in_a_part_of_a_batch(tmp_path: Path) -> None:
    tap = Tap(tmp_path / "taps", ("steps[0] filter",), "n % 2000 = 0", EVENTS_OF_SPLIT)

    run_split(tmp_path / "taps", EVENTS)

    assert numbers(tap) == [0, 2000, 4000]


def test_without_a_request_a_task_only_looks(tmp_path: Path) -> None:
    assert Taps.open(tmp_path / "taps") is None
    assert Taps.open(None) is None


def test_a_viewer_who_is_behind_gets_no_more(tmp_path: Path) -> None:
    tap = Tap(tmp_path / "taps", ("steps[0] filter",), None, 1)

    for number in range(MAX_FILES + 10):
        run_split(tmp_path / "taps", EVENTS.slice(number))

    assert numbers(tap) == list(range(MAX_FILES))


def test_a_viewer_who_has_gone_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Tap(tmp_path / "taps", ("steps[0] filter",), None, 1)
    later = time.time() + 60
    monkeypatch.setattr(segment_taps.time, "time", lambda: later)

    assert Taps.open(tmp_path / "taps") is None


def test_a_condition_that_fails_concerns_the_viewer_only(tmp_path: Path) -> None:
    tap = Tap(tmp_path / "taps", ("steps[0] filter",), "no_field = 1", 1)

    run_split(tmp_path / "taps", EVENTS)

    with pytest.raises(EtlError, match=r"where: .*no_field"):
        list(tap.read())
    (tmp_path / "taps" / "broken.json").write_text("{")
    run_split(tmp_path / "taps", EVENTS)
