"""Fixtures for tests of the scanner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from etl.columns import disk_cache
from etl.scanner import learning
from etl.scanner.stages import _learner


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder, no learners of earlier tests, and enough time for training on a busy machine.

    Returns the folder of the stored scanners.
    """
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(learning, "FIRST_SECONDS", 60.0)
    _learner.cache_clear()
    yield tmp_path / "scanners"
    _learner.cache_clear()
