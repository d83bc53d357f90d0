"""What tests of kernels need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from etl.columns import cache_files
from etl.scanner import learning
from etl.scanner.stages import _learner


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own for what scanners learn, no scanner of earlier tests, time however busy the machine is.

    Returns the folder of the files.
    """
    monkeypatch.setattr(cache_files, "folder", lambda: tmp_path)
    monkeypatch.setattr(learning, "FIRST_SECONDS", 60.0)
    _learner.cache_clear()
    yield tmp_path / "scanners"
    _learner.cache_clear()
