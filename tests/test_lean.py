"""Processes that do without packages."""

from __future__ import annotations

import subprocess
import sys

LOOK = """
import sys
from etl.lean import forbid{call}
import pyarrow as pa
pa.array([1, 2])
print("pandas" in sys.modules)
"""


def loads_pandas(call: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", LOOK.replace("{call}", call)], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_forbidden_package_is_not_loaded_and_arrow_works_without() -> None:
    assert loads_pandas("") == "True"  # else this test has no point, and neither has the module
    assert loads_pandas("\nforbid('pandas')") == "False"
