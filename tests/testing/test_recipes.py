"""The tests inside every recipe, run as ``etl test`` runs them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from etl.config.cases.case_file import Suite, inspect_tests
from etl.plan.query_plan import Plan
from etl.resources import recipes
from etl.testing.results import result
from etl.testing.trial import wants_spark

pytestmark = pytest.mark.slow

each_recipe = pytest.mark.parametrize("path", recipes().values(), ids=recipes())


def suite(path: Path) -> Suite:
    found = inspect_tests(path)
    assert found.suite is not None, [str(problem) for problem in found.problems]
    return found.suite


def failures(tests: Suite, on_spark: Any, spark: bool) -> list[str]:
    ran = [result(tests, case, on_spark) for case in tests.cases if wants_spark(tests, case) is spark]
    return [line for one in ran if not one.passed for line in (one.name, *one.lines())]


def no_spark(plan: Plan, state: Path, drain: bool) -> None:
    raise AssertionError("Spark was asked for")


@each_recipe
def test_tests_without_spark_pass(path: Path) -> None:
    assert failures(suite(path), no_spark, spark=False) == []


@pytest.mark.spark
@each_recipe
def test_tests_on_spark_pass(path: Path, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    tests = suite(path)
    if not any(wants_spark(tests, case) for case in tests.cases):
        return  # a session takes seconds: one that nothing needs is not started

    from etl.testing.on_spark import run_on

    shared = partial(run_on, request.getfixturevalue("shared_session"))
    assert failures(tests, shared, spark=True) == []
