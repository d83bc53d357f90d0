"""`make test` and `make test-quick` divide the tests among processes by groups: a file, or all tests with servers of one kind."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
from forked_workers import GROUP
from running import ROOT


def test_a_file_is_a_group_of_its_own_with_forks(request: pytest.FixtureRequest) -> None:
    group = request.node.stash.get(GROUP, "")

    assert group == ("tests/test_groups.py" if request.config.option.forks > 1 else "")


def test_the_tests_of_a_group_follow_each_other(request: pytest.FixtureRequest) -> None:
    groups = [item.stash[GROUP] for item in request.session.items if GROUP in item.stash]

    runs = [group for group, _ in groupby(groups)]

    assert len(runs) == len(set(runs))


OUTCOMES = """
import os, sys, warnings, pytest

@pytest.fixture(scope="module")
def opened():
    yield os.getpid()
    print("the module's fixture is closed")

def test_passes(opened, tmp_path):
    (tmp_path / "x").write_text("")

def test_fails(opened, tmp_path):
    print("what the test printed")
    assert not list(tmp_path.iterdir()) and opened == 0

@pytest.mark.skip(reason="the reason")
def test_is_skipped():
    pass

@pytest.mark.xfail
def test_fails_as_expected():
    assert False

@pytest.fixture
def broken():
    yield
    raise ValueError("in the teardown")

def test_whose_teardown_fails(broken):
    pass
"""


def run_forked(folder: Path, files: dict[str, str], *options: str) -> tuple[int, str]:
    """Run pytest on files of tests in two forked processes: its exit code and what it prints."""
    for name, text in files.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "forked_workers", "-p", "no:cacheprovider", "-c", os.devnull, "--forks", "2"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    ended = subprocess.run([*command, *options, "."], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.slow
def test_forked_processes_report_what_one_process_reports(tmp_path: Path) -> None:
    code, printed = run_forked(
        tmp_path, {"test_a.py": OUTCOMES, "test_b.py": OUTCOMES, "test_c.py": "def test_one(): pass"}, "-v"
    )

    assert code == 1
    assert "2 failed, 5 passed, 2 skipped, 2 xfailed, 2 errors" in printed
    assert "test_a.py::test_passes PASSED" in printed
    assert printed.count("Captured stdout call") == 2
    assert printed.count("E   ") >= 4


ENDS = """
import os
def test_first(): pass
def test_that_ends(): os._exit(3)
def test_next(): pass
def test_that_ends_too(): os._exit(4)
def test_last(): pass
"""


@pytest.mark.slow
def test_a_process_that_ends_in_a_test_fails_it_and_other_processes_run_what_is_left(tmp_path: Path) -> None:
    others = {f"test_{name}.py": "def test_one(): pass" for name in "bcd"}

    code, printed = run_forked(tmp_path, {"test_a.py": ENDS, **others}, "--durations=0")

    assert code == 1
    assert "2 failed, 6 passed" in printed
    assert "the process of this test ended with 3" in printed
    assert "the process of this test ended with 4" in printed
    assert "FAILED test_a.py::test_that_ends_too" in printed
    assert "forked processes ended: " in printed


@pytest.mark.slow
def test_a_test_that_hangs_fails_and_other_processes_run_what_is_left(tmp_path: Path) -> None:
    hangs = "import time\ndef test_that_hangs():\n    time.sleep(600)\ndef test_last(): pass"

    code, printed = run_forked(tmp_path, {"test_a.py": hangs, "test_b.py": "def test_one(): pass"}, "--max-test-seconds=1")

    assert code == 1
    assert "1 failed, 2 passed" in printed
    assert "this test took longer than 1 s" in printed
    assert "line 3 in test_that_hangs" in printed


@pytest.mark.slow
def test_the_first_failure_ends_all_processes_when_one_asks_for_it(tmp_path: Path) -> None:
    waits = "import time\ndef test_waits(): time.sleep(600)"

    code, printed = run_forked(tmp_path, {"test_a.py": "def test_fails(): assert 0", "test_b.py": waits}, "-x")

    assert code == 1
    assert "stopping after 1 failures" in printed


@pytest.mark.slow
@pytest.mark.parametrize(("expression", "code"), [("not (spark or slow)", 0), ("not (spark)", 2), ("not slow", 2)])
def test_files_whose_tests_are_all_deselected_are_not_imported(tmp_path: Path, expression: str, code: int) -> None:
    marked = "import pytest\npytestmark = [pytest.mark.slow, pytest.mark.x]\nraise ImportError\ndef test_two(): pass"

    found, printed = run_forked(tmp_path, {"test_a.py": "def test_one(): pass", "test_b.py": marked}, "-m", expression)

    assert (found, "1 passed" in printed) == (code, code == 0)
