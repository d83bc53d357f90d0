"""Which engine reads a text depends on the time there was for learning; what is read must not.

Recipes come out as expected where the automata learn (their own tests); here no automaton knows a text, so that RE2 and the
package ``regex`` read all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_recipe_lines import FOLDER, differing, events_of, lines_of

from etl.columns.texts import Texts
from etl.config.cases.case_file import inspect_tests
from etl.resources import recipes
from etl.scanner.learning import Learner, MatchArrays
from etl.testing.results import result
from etl.testing.trial import wants_spark

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    def left_to_others(learner: Learner, texts: Texts) -> MatchArrays:
        return MatchArrays.unknown(len(learner.names), len(texts.address))

    monkeypatch.setattr(Learner, "scan", left_to_others)


def _failures(path: Path) -> list[str]:
    def no_spark(*_: Any) -> None:
        raise AssertionError("Spark was asked for")

    tests = inspect_tests(path).suite
    assert tests is not None
    ran = [result(tests, case, no_spark) for case in tests.cases if not wants_spark(tests, case)]
    return [line for one in ran if not one.passed for line in (one.name, *one.lines())]


SAMPLE = dict(list(recipes().items())[::2])
"""Every second recipe: all of them cost a minute, and have come out alike."""


@pytest.mark.parametrize("path", SAMPLE.values(), ids=SAMPLE)
def test_a_recipe_reads_its_samples_the_same(path: Path) -> None:
    assert _failures(path) == []


@pytest.mark.parametrize("recipe", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_lines_of_a_format_read_the_same(recipe: str) -> None:
    lines = lines_of(recipe)

    wrong = [text for line, event in zip(lines, events_of(recipe, lines), strict=True) if (text := differing(line, event))]

    assert wrong == []
