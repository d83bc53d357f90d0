"""The page about Python: its code runs, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
SPARK = "starts Spark"
CHECKED = """
import runpy, sys
from etl.sdk import Pipeline
sys.path.insert(0, ".")
def check(names):
    for pipeline in names.values():
        if isinstance(pipeline, Pipeline):
            assert pipeline.lint().errors == (), pipeline.lint()
"""
"""A program that checks the pipelines that files make."""


def blocks(folder: Path) -> list[tuple[Path, str]]:
    """Each block as a file, with what it prints."""
    shutil.copy(ROOT / "samples" / "ssh-auth.log", folder / "auth.log")
    (folder / "intel.csv").write_text("ip,score\n192.0.2.1,90\n")
    made = []
    for number, (text, printed) in enumerate(BLOCK.findall(PAGE)):
        named = re.match(r"# (\w+\.py)", text)
        path = folder / (named[1] if named else f"block_{number}.py")
        path.write_text(text)
        made.append((path, printed))
    return made


def run(folder: Path, program: str) -> str:
    env = {**os.environ, "DB_PASSWORD": "x", "ETL_STATE": str(folder / "states")}
    ran = subprocess.run([sys.executable, "-c", program], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_code_without_spark_runs_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    quick = [(path, printed) for path, printed in blocks(tmp_path) if SPARK not in path.read_text()]
    ends = "print('--- end ---', flush=True)"
    names = {path: path.stem if path.name == "logins.py" else "__main__" for path, _ in quick}  # which runs where it is main
    lines = [f"check(runpy.run_path({path.name!r}, run_name={name!r})); {ends}" for path, name in names.items()]

    found = run(tmp_path, CHECKED + "\n".join(lines)).split("--- end ---\n")

    assert len(quick) > 8
    for (path, printed), out in zip(quick, found, strict=False):
        if path.name != "logins.py":
            assert out == printed, path.name


@pytest.mark.slow
def test_the_yaml_of_the_page_is_that_of_its_first_pipeline(tmp_path: Path) -> None:
    blocks(tmp_path)

    shown = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]

    written = run(tmp_path, "import logins; print(logins.first.to_yaml(), end='')")
    assert written == shown
    assert yaml.safe_load(written)["name"] == "logins"


@pytest.mark.slow
def test_the_pytest_of_the_page_passes(tmp_path: Path) -> None:
    blocks(tmp_path)

    run(tmp_path, "import sys, test_logins; test_logins.test_the_user_and_the_address_are_read()")


@pytest.mark.spark
@pytest.mark.slow
def test_code_with_spark_runs_on_a_session_of_its_own(tmp_path: Path) -> None:
    made = blocks(tmp_path)
    with_spark = [path for path, _ in made if SPARK in path.read_text() and path.name != "own_session.py"]
    last = [path for path, _ in made if path.name == "own_session.py"]
    capture = "out = io.StringIO()\nwith contextlib.redirect_stdout(out): "
    first = f"{capture}runpy.run_path('logins.py', run_name='__main__')\nprint(out.getvalue())"
    between = (  # a JVM that the system kills for want of memory leaves a process that starts another one
        "import contextlib, os, psutil; from etl.sdk import stop_spark\n"
        "for one in psutil.Process().children(recursive=True):\n"
        "    with contextlib.suppress(psutil.NoSuchProcess):\n"
        "        one.kill() if one.name() == 'java' else None\n"
        "psutil.wait_procs(psutil.Process().children(), 1); stop_spark(); os.remove('logins.jsonl')"
    )
    runs = [f"runpy.run_path({path.name!r}, run_name='__main__')" for path in with_spark]
    lines = [first, *runs, between, *(f"runpy.run_path({path.name!r}, run_name='__main__')" for path in last)]

    printed = run(tmp_path, "import contextlib, io, runpy, sys; sys.path.insert(0, '.')\n" + "\n".join(lines))

    shown = next(text for path, text in made if path.name == "logins.py")
    assert shown in printed
    assert len(with_spark) == 3
