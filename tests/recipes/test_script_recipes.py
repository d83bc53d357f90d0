"""Recipes in SQL: nothing for lint to say, and tests in a file beside them that pass."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from etl.config.cases.case_file import inspect_tests
from etl.config.loader import check
from etl.resources import scripts
from etl.running.shared_session import SharedSession
from etl.testing.on_spark import run_on
from etl.testing.results import result

each_script = pytest.mark.parametrize("path", scripts().values(), ids=scripts())


@each_script
def test_a_script_says_for_whom_it_is_and_has_no_problem(path: Path) -> None:
    first = path.read_text("utf-8").splitlines()[0]
    assert first.startswith("-- ")
    assert "whoever" in first
    assert [str(problem) for problem in check([path, path.with_name(f"{path.stem}_test.yaml")])] == []


@pytest.mark.spark
@pytest.mark.slow
@each_script
def test_tests_beside_it_pass(path: Path, shared_session: SharedSession) -> None:
    suite = inspect_tests(path.with_name(f"{path.stem}_test.yaml")).suite
    assert suite is not None
    assert len(suite.cases) >= 2
    ran = [result(suite, case, partial(run_on, shared_session)) for case in suite.cases]
    assert [line for one in ran if not one.passed for line in (one.name, *one.lines())] == []
