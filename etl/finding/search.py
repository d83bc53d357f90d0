"""What reads a sample: the parsers, and the recipes whose samples are like it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain

from etl.finding.candidates import Candidate, parser_candidates, recipe_candidate
from etl.finding.match import Match, match, reads_nonsense
from etl.finding.ranking import ranked
from etl.finding.sample import Sample
from etl.finding.signatures import Signature, by_likeness, signatures
from etl.resources import recipes

LIKE_LINES = 100
"""Lines of the sample that are compared with those of recipes."""

NEAREST, NEARLY = 8, 0.3
"""Recipes that are tried first at the most, and how like the sample they are at the least, beside the most like one."""

LEAST_FIELDS = 0.5
"""Fields that an event must have on average: less is no format."""

LEAST_LIKENESS = 0.1
"""How like a recipe's own lines a sample has to be for the recipe to be tried at all."""


def matches(sample: Sample, wanted: str | None = None) -> list[Match]:
    """All that reads some of a sample, the best first.

    The parsers and the recipes most like the sample are tried, and the other recipes only where none of those reads half
    of the events; ``wanted`` is a recipe to try in any case.
    """
    known = _known()
    likeness = by_likeness(sample.lines[:LIKE_LINES], known)
    order = [one for one, share in likeness.items() if share >= LEAST_LIKENESS]
    near = [one for one in order[:NEAREST] if likeness[one] >= NEARLY * likeness[order[0]]]
    near += [one for one in known if one.name == wanted and one not in near]
    found = _tried(chain(_built(near), parser_candidates(sample.lines[0])), sample)
    if not any(2 * one.rate >= 1 for one in found):
        found += _tried(_built(one for one in order if one not in near), sample)
    return ranked(found, likeness)


@cache
def _known() -> list[Signature]:
    return signatures(recipes())


def _built(known: Iterable[Signature]) -> Iterator[Candidate]:
    return (candidate for one in known if (candidate := recipe_candidate(one.name, one.path)))


def _tried(candidates: Iterable[Candidate], sample: Sample) -> list[Match]:
    tried = (match(candidate, sample) for candidate in candidates)
    return [one for one in tried if one and one.read and one.filled >= LEAST_FIELDS and not reads_nonsense(one)]
