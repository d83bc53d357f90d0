"""The Spark session that runs share, with a start that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.api import EtlError
from etl.running.shared_session import RETRY_SECONDS, SharedSession


def test_a_start_that_failed_is_tried_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[str] = []
    now = [100.0]

    def start(name: str, *given: object) -> None:
        starts.append(name)
        raise EtlError("no memory")

    monkeypatch.setattr("etl.running.shared_session.spark.start", start)
    monkeypatch.setattr("etl.running.shared_session.time.monotonic", lambda: now[0])
    session = SharedSession("x", "local[1]", tmp_path / "spark.log")

    for _ in range(3):
        with pytest.raises(EtlError, match="no memory"):
            session.started()
    assert starts == ["x"], "pipelines that start at the same time wait for one start only"
    now[0] += RETRY_SECONDS
    with pytest.raises(EtlError, match="no memory"):
        session.started()
    assert starts == ["x", "x"]
