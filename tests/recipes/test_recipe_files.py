"""What every recipe owes its user: a word for whom it is, a sample with its origin, tests, and nothing for lint to say.

That the tests inside pass is tests/testing/test_recipes.py, without Spark where no step needs it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from running import ROOT

from etl.config.cases.case_file import Suite, inspect_tests
from etl.config.loader import check
from etl.resources import recipes

SAMPLES = ROOT / "samples"

each_recipe = pytest.mark.parametrize("path", recipes().values(), ids=recipes())

row_of_samples = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@cache
def listed() -> dict[str, tuple[str, str]]:
    """Sample → what it is and where it is from."""
    return {name: (what, origin) for name, what, origin in row_of_samples.findall((SAMPLES / "README.md").read_text())}


@cache
def suite(path: Path) -> Suite:
    """The recipe's tests."""
    found = inspect_tests(path)
    assert found.suite is not None, [str(problem) for problem in found.problems]
    return found.suite


def samples_of(path: Path) -> set[str]:
    """The samples that the recipe's tests read."""
    return set(re.findall(r"\.\./samples/([\w.\-]+)", path.read_text()))


@pytest.mark.slow
@each_recipe
def test_a_recipe_says_what_it_is_and_for_whom(path: Path) -> None:
    lines = path.read_text().splitlines()

    assert lines[0] == "# yaml-language-server: $schema=../schemas/pipeline.schema.json"
    assert lines[1].startswith("# ")
    assert "whoever" in "\n".join(line for line in lines[1:6] if line.startswith("# "))
    assert re.search(r"^description: \S.*\.$", path.read_text(), re.MULTILINE)
    assert suite(path).pipeline.name == path.stem


@each_recipe
def test_a_recipe_is_tested_with_a_sample_of_known_origin(path: Path) -> None:
    samples = samples_of(path)

    assert samples, f"no test of {path.name} reads a file of samples/"
    assert samples <= listed().keys(), "samples/README.md says what a sample is and where it is from"


@each_recipe
def test_a_recipe_has_tests_and_each_expects_something(path: Path) -> None:
    cases = suite(path).cases

    assert len(cases) >= 2
    assert not [case.name for case in cases if case.shows], "these expect nothing"


@pytest.mark.slow
def test_no_recipe_has_a_problem_or_a_warning() -> None:
    assert [str(problem) for problem in check(recipes().values())] == []


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md"))
def test_a_sample_is_listed_and_short_enough_to_read(name: str) -> None:
    assert name in listed()
    assert (SAMPLES / name).stat().st_size < 256 * 1024


def test_every_listed_sample_is_there() -> None:
    assert [name for name in listed() if not (SAMPLES / name).is_file()] == []
