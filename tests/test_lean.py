"""Processes that forbid or defer packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

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


@pytest.mark.slow
def test_a_forbidden_package_is_not_loaded_and_arrow_works_without_it() -> None:
    assert loads_pandas("") == "True"  # else this test has no point, and neither has the module
    assert loads_pandas("\nforbid('pandas')") == "False"
    assert loads_pandas("\nforbid('pandas')\nimport pandas") == "True"  # what the user's code imports, it gets


DEFER = """
import sys
from etl.lean import defer
defer("pyarrow.compute")
import pyarrow as pa
import pyarrow.compute as pc
count = pc.count
print("pyarrow._compute_docstrings" in sys.modules, count(pa.array([1, None])).as_py(), pc.sum(pa.array([1, 2])).as_py())
print("pyarrow._compute_docstrings" in sys.modules, isinstance(pc.CountOptions, type))
"""


@pytest.mark.slow
def test_a_deferred_module_is_loaded_by_the_first_call_of_its_functions() -> None:
    printed = subprocess.run([sys.executable, "-c", DEFER], capture_output=True, text=True, check=True).stdout.split()
    assert printed == ["False", "1", "3", "True", "True"]


@pytest.mark.slow
def test_a_check_loads_no_functions_of_arrow() -> None:
    look = (
        "import sys; from etl.lean import defer; defer('pyarrow.compute'); from etl.config import check; from pathlib import Path"
    )
    look += "; print(check([Path('pipelines/ssh-failed-logins.yaml')], {}), 'pyarrow._compute_docstrings' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert printed.split() == ["[]", "False"]


@pytest.mark.slow
def test_lint_of_a_script_loads_no_numpy_and_only_the_components_that_it_uses(tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text(
        "CREATE TABLE logs (host STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'logs.jsonl', 'format' = 'json');"
        "SELECT upper(host), n % 10 FROM logs"
    )
    look = "import sys; from etl.lean import forbid; forbid('numpy', 'pandas', 'polars')"
    look += "; from etl.config import check; from pathlib import Path"
    look += "; from etl.expressions.library.catalogue import _MODULES, functions; print(*map(len, map(functions, _MODULES)))"
    look += f"; print(check([Path({str(script)!r})], {{}}), 'connectors.kafka.source' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, cwd=ROOT)
    assert printed.stdout.splitlines()[1:] == ["[] False"], printed.stderr
