"""Which of the candidates that read a sample reads it best.

A recipe that reads objects or pairs reads those of any program: it comes before the parser alone only where it knows
them, that is where the members that it declares are there, some of them rare, and few others are. Members count by how
rare they are among recipes: ``stream`` tells more than ``message``, a name that no recipe declares tells most against it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from etl.finding.candidates import PLACEHOLDER
from etl.finding.match import REST_ROWS, Match, member_names, members, rest_fields
from etl.finding.signatures import Signature, rarity

ALIKE, UNLIKE = 2.0, 0.9
"""What a recipe counts for beside a parser that reads the same: where its own lines are like the sample, and where not."""

LEAST_KNOWN, LEAST_SHARE = 1.5, 0.45
"""Rare members that a recipe must know of an event, and their share in all, to be the recipe of what wrote it."""

MOST_COUNTED = 12
"""Fields of an event that count; more say nothing more of its format."""

NEARLY_ALL = 0.8
"""The share of events of which more is said to be all."""

MADE = 0.9
"""What a pattern made from the lines counts for beside a parser that reads as much: that knows its format."""

PASSED_OVER = 0.25
"""What a line counts for that a recipe leaves to others, beside one that it reads."""

DOUBT = 0.4
"""What a recipe or parser counts for beside a pattern made from the lines, where these have nothing of its program."""

STRANGER = 0.9
"""By how much a recipe comes behind the parser alone where it knows too little."""


def ranked(found: Iterable[Match], likeness: Mapping[Signature, float], doubtful: Collection[str] = frozenset()) -> list[Match]:
    """The best first; ``doubtful`` are names of what reads lines that may be another program's."""
    found = list(found)
    known = {one.name: one for one in likeness}
    rare = rarity(list(likeness))
    readers = [(one, shares) for one in found if one.candidate.recipe is None and (shares := _shares(one))]

    def score(one: Match) -> float:
        if one.candidate.recipe is None:
            return _worth(one, one.filled) * (MADE if one.candidate.proposal else 1.0)
        signature = known[one.candidate.name]
        bonus = UNLIKE + (ALIKE - UNLIKE) * round(likeness[signature], 1)
        bonus *= 1.0 if one.knows_details else STRANGER / ALIKE
        close = [(other, shares) for other, shares in readers if _reads_alike(one, other)]
        worths = [_beside(one, other, bonus, *_knowledge(signature.keys, shares, rare)) for other, shares in close]
        return max(worths, default=_worth(one, one.filled) * bonus)

    made = any(one.candidate.proposal and one.rate >= NEARLY_ALL for one in found)

    def doubt(one: Match) -> float:
        return DOUBT if one.candidate.name in doubtful and made else 1.0

    return sorted(found, key=lambda one: (-_reads_most(one, found), -score(one) * doubt(one), one.candidate.name))


def _reads_most(one: Match, found: Iterable[Match]) -> bool:
    """Whether it reads nearly all, where what is made from the lines does: what reads part of them comes behind."""
    if one.candidate.recipe is not None and not one.rejected:
        return True  # it passes over other programs' lines
    return one.rate >= NEARLY_ALL or not any(other.candidate.proposal and other.rate >= NEARLY_ALL for other in found)


def _reads_alike(recipe: Match, parser: Match) -> bool:
    """Whether a recipe has the parser and that reads, alone, all but little of what the recipe reads."""
    return parser.candidate.name in recipe.candidate.types and parser.rate > 0.9 * recipe.rate


def _worth(one: Match, filled: float) -> float:
    """Reading more lines counts most, then reading more out of them; lines that a recipe passes over count a little."""
    passed = one.events - one.read - one.rejected if one.candidate.recipe else 0
    rate = one.rate + PASSED_OVER * passed / one.events
    return rate**2 * math.sqrt(min(filled, MOST_COUNTED))


def _knowledge(keys: Iterable[str], shares: Mapping[str, float], rare: Mapping[str, float]) -> tuple[float, float]:
    """How much a recipe knows of an event's members, and the share of that in all."""
    weights = {name: share * rare.get(name, 1.0) for name, share in shares.items()}
    known = sum(weights[name] for name in keys if name in weights)
    return known, known / (sum(weights.values()) or 1.0)


def _beside(one: Match, parser: Match, bonus: float, known: float, share: float) -> float:
    """The worth of a recipe beside that of the parser alone which reads the same objects or pairs."""
    own = _worth(one, one.filled)
    if known >= LEAST_KNOWN and share >= LEAST_SHARE:
        return max(own, _worth(one, parser.filled)) * bonus
    stranger = parser.candidate.name in one.candidate.opening
    return min(own, _worth(one, parser.filled * share)) * STRANGER if stranger else own * bonus


def _shares(parser: Match) -> Mapping[str, float]:
    """The last name of each member → the share of events that have it, for a parser that knows no member by itself."""
    if parser.candidate.fields - rest_fields(parser.candidate) - {PLACEHOLDER}:
        return {}
    counts: Counter[str] = Counter()
    rows = 0
    for name in rest_fields(parser.candidate):
        for batch in parser.batches:
            texts = batch.column(name).slice(0, REST_ROWS).to_pylist() if name in batch.schema.names else []
            counts.update(found for text in texts for found in set(member_names(members(text))))
            rows += len(texts)
    return {name: count / rows for name, count in counts.items()}
