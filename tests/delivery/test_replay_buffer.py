"""Input that comes once and is iterated several times."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from etl.delivery import replay_buffer
from etl.delivery.replay_buffer import ReplayBuffer


def arriving(count: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        yield pa.RecordBatch.from_pydict({"n": [number] * 10})


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [batch.column("n")[0].as_py() for batch in batches]


@pytest.mark.parametrize("memory", [1 << 20, 400, 0], ids=["in memory", "partly on disk", "on disk"])
def test_each_iteration_yields_all_batches_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    monkeypatch.setattr(replay_buffer, "MEMORY_BYTES", memory)
    input_ = ReplayBuffer(arriving(20), tmp_path / "kept")

    broken_off = [numbers(islice(input_, stop)) for stop in (3, 0, 11, 8)]
    whole = [numbers(iter(input_)) for _ in range(2)]
    input_.close()

    assert broken_off == [list(range(stop)) for stop in (3, 0, 11, 8)]
    assert whole == [list(range(20))] * 2
    assert list(tmp_path.iterdir()) == []
