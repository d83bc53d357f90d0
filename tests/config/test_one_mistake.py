"""A law: one mistake in a pipeline without errors gives one problem."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from one_mistake import Mistake, mistakes

from etl.config.document.parser import parse
from etl.config.loader import inspect

CASES = int(os.environ.get("SLUICE_FUZZ", "150"))
"""Mistakes that are tried; more by ``SLUICE_FUZZ``."""
MAX_SHARE_WITH_SEVERAL = 0.02
"""Maximum share of mistakes with several problems: a field or stream that is gone is missed wherever it is used."""
PIPELINE = Path(__file__).with_name("without_mistakes.yaml")


@pytest.mark.slow
def test_one_mistake_gives_one_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = Counter[bool]()
    for mistake in _sample():
        file = tmp_path / "pipeline.yaml"
        file.write_text(mistake.text)

        errors = [problem for problem in inspect(file, {}).problems if problem.severity == "error"]

        assert not [problem for problem in errors if problem.code == "check-failed"], f"{mistake.kind} at {mistake.path}"
        found[len(errors) > 1] += 1

    assert found[True] <= MAX_SHARE_WITH_SEVERAL * sum(found.values())


def _sample() -> list[Mistake]:
    """A sample of all mistakes but those that remove a name: what uses it is missed at each of its uses."""
    root = parse(PIPELINE.read_text()).value
    every = [one for one in mistakes(root) if one.kind != "missing option"]
    return Random(os.environ.get("SLUICE_SEED", "0")).sample(every, min(CASES, len(every)))
