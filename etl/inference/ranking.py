"""Ranking the matches of a sample.

A recipe that parses objects or pairs parses those of any program. It ranks before the parser alone only if the events have the
members that it declares, some of them rare, and few others. Members are weighted by their rarity among recipes: ``stream`` counts
more than ``message``, and a name that no recipe declares counts most against the recipe.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from etl.inference.candidates import PLACEHOLDER
from etl.inference.match import REST_ROWS, Match, member_names, parse_rest, rest_fields
from etl.inference.signatures import Signature, rarity

SIMILAR_FACTOR, DISSIMILAR_FACTOR = 2.0, 0.9
"""Factors of a recipe against a parser that parses the same: with lines similar to the sample, and without."""

MIN_KNOWN_WEIGHT, MIN_SHARE = 1.5, 0.45
"""Minimum weight of declared members in an event, and minimum share of the total, for the recipe to fit the program."""

MAX_COUNTED_FIELDS = 12
"""Maximum number of fields of an event that count."""

MIN_COMPLETE_SHARE = 0.8
"""Share of events from which on a match counts as complete."""

GENERATED_FACTOR = 0.9
"""Factor of generated patterns against a parser that parses as much: the parser knows the format."""

FILTERED_WEIGHT = 0.25
"""Weight of a line that a recipe filters out, against one that it parses."""

DOUBTFUL_FACTOR = 0.4
"""Factor of a doubtful recipe or parser against generated patterns."""

OTHER_PROGRAM_FACTOR = 0.9
"""Factor of a recipe that does not fit the program, against the parser alone."""


def rank_matches(
    found: Iterable[Match], likeness: Mapping[Signature, float], doubtful: Collection[str] = frozenset()
) -> list[Match]:
    """The matches, the best first; ``doubtful`` names those that may be of another program."""
    found = list(found)
    known = {one.name: one for one in likeness}
    rare = rarity(list(likeness))
    readers = [(one, shares) for one in found if one.candidate.recipe is None and (shares := _member_shares(one))]

    def score(one: Match) -> float:
        if one.candidate.recipe is None:
            return _rate_match(one, one.filled) * (GENERATED_FACTOR if one.candidate.proposal else 1.0)
        signature = known[one.candidate.name]
        bonus = DISSIMILAR_FACTOR + (SIMILAR_FACTOR - DISSIMILAR_FACTOR) * round(likeness[signature], 1)
        bonus *= 1.0 if one.knows_details else OTHER_PROGRAM_FACTOR / SIMILAR_FACTOR
        close = [(other, shares) for other, shares in readers if _reads_alike(one, other)]
        ratings = [
            _rate_beside_parser(one, other, bonus, *_weigh_declared(signature.keys, shares, rare)) for other, shares in close
        ]
        return max(ratings, default=_rate_match(one, one.filled) * bonus)

    made = any(one.candidate.proposal and one.rate >= MIN_COMPLETE_SHARE for one in found)

    def doubt_factor(one: Match) -> float:
        return DOUBTFUL_FACTOR if one.candidate.name in doubtful and made else 1.0

    return sorted(found, key=lambda one: (-_reads_most(one, found), -score(one) * doubt_factor(one), one.candidate.name))


def _reads_most(one: Match, found: Iterable[Match]) -> bool:
    """Whether the match parses nearly all events, or generated patterns do not either."""
    if one.candidate.recipe is not None and not one.rejected:
        return True  # it passes over other programs' lines
    generated = (other for other in found if other.candidate.proposal)
    return one.rate >= MIN_COMPLETE_SHARE or not any(other.rate >= MIN_COMPLETE_SHARE for other in generated)


def _reads_alike(recipe: Match, parser: Match) -> bool:
    """Whether a recipe uses the parser, which alone parses nearly as much as the recipe."""
    return parser.candidate.name in recipe.candidate.types and parser.rate > 0.9 * recipe.rate


def _rate_match(one: Match, filled: float) -> float:
    """The rating of a match: more parsed lines count most, then more fields; lines that a recipe filters count a little."""
    passed = one.events - one.read - one.rejected if one.candidate.recipe else 0
    rate = one.rate + FILTERED_WEIGHT * passed / one.events
    return rate**2 * math.sqrt(min(filled, MAX_COUNTED_FIELDS))


def _weigh_declared(keys: Iterable[str], shares: Mapping[str, float], rare: Mapping[str, float]) -> tuple[float, float]:
    """The weight of an event's members that a recipe declares, and its share of the total."""
    weights = {name: share * rare.get(name, 1.0) for name, share in shares.items()}
    known = sum(weights[name] for name in keys if name in weights)
    return known, known / (sum(weights.values()) or 1.0)


def _rate_beside_parser(one: Match, parser: Match, bonus: float, known: float, share: float) -> float:
    """The rating of a recipe relative to that of the parser alone, which parses the same objects or pairs."""
    own = _rate_match(one, one.filled)
    if known >= MIN_KNOWN_WEIGHT and share >= MIN_SHARE:
        return max(own, _rate_match(one, parser.filled)) * bonus
    is_other_program = parser.candidate.name in one.candidate.opening
    return min(own, _rate_match(one, parser.filled * share)) * OTHER_PROGRAM_FACTOR if is_other_program else own * bonus


def _member_shares(parser: Match) -> Mapping[str, float]:
    """The last name of each member → the share of events that have it, for a parser that knows no member by itself."""
    if parser.candidate.fields - rest_fields(parser.candidate) - {PLACEHOLDER}:
        return {}
    counts: Counter[str] = Counter()
    rows = 0
    for name in rest_fields(parser.candidate):
        for batch in parser.batches:
            texts = batch.column(name).slice(0, REST_ROWS).to_pylist() if name in batch.schema.names else []
            counts.update(found for text in texts for found in set(member_names(parse_rest(text))))
            rows += len(texts)
    return {name: count / rows for name, count in counts.items()}
