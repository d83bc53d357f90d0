"""Where the benchmarks keep what they make: outside the checkout, in one folder that may be deleted at any time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("SLUICE_BENCH", Path.home() / ".cache" / "sluice-bench"))
RESULTS = CACHE / "results"
VENV = CACHE / "venv"


def acceptance() -> Path:
    """The folder of acceptance data, found as the tests find it."""
    return Path(os.environ.get("SLUICE_ACCEPTANCE", ROOT.parent / "shared" / "acceptance"))


def fresh(name: str) -> Path:
    """An empty folder of that name in the cache."""
    folder = CACHE / "work" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
