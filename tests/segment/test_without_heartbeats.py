"""Heartbeat rows after a reading task."""

from __future__ import annotations

import pyarrow as pa

from etl.api import OFFSET
from etl.segment.event_time import without_heartbeats


def test_heartbeats_are_removed_and_other_batches_are_not_copied() -> None:
    events = pa.record_batch({"n": [1, 2], OFFSET: pa.array([0, 1], pa.int64())})
    mixed = pa.record_batch({"n": [None, 2], OFFSET: pa.array([None, 1], pa.int64())})

    assert without_heartbeats(events) is events
    assert without_heartbeats(mixed).to_pylist() == [{"n": 2, OFFSET: 1}]
