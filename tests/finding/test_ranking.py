"""A recipe comes before the parser that it uses, on its own sample."""

from __future__ import annotations

import pytest
from running import ROOT

from etl.finding.candidates import Candidate, candidates
from etl.finding.match import match
from etl.finding.sample import beginning, sampled


@pytest.fixture(scope="module")
def tried() -> list[Candidate]:
    return list(candidates())


@pytest.mark.parametrize("name", ["fortigate", "juniper-srx", "zeek-json", "windows-events", "nginx-access"])
def test_a_recipe_beats_every_parser_on_its_sample(name: str, tried: list[Candidate]) -> None:
    with sampled(ROOT / "samples" / f"{name}.log") as whole:
        sample = beginning(whole)
        scores = {one.name: found.score for one in tried if (one.parser or one.name == name) and (found := match(one, sample))}

    assert max(scores, key=lambda one: scores[one]) == name
