"""What reads a sample: the parsers, and the recipes whose samples are like it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

from etl.finding.ahead import times_compiled
from etl.finding.candidates import Candidate, may_open, parser_candidates, recipe_candidate, table_candidate
from etl.finding.csv_columns import csv_table
from etl.finding.match import Match, match, reads_nonsense
from etl.finding.misreading import misreads
from etl.finding.proposal import proposal
from etl.finding.proposed import NAME as MADE
from etl.finding.proposed import made_candidate
from etl.finding.ranking import ranked
from etl.finding.sample import Sample
from etl.finding.signatures import Signature, by_likeness, own_words, signatures
from etl.resources import recipes

LIKE_LINES = 100
"""Lines of the sample that are compared with those of recipes."""

NEAREST, NEARLY = 8, 0.3
"""Recipes that are tried first at the most, and how like the sample they are at the least, beside the most like one."""

ENOUGH = 0.8
"""The share of events that has to be read for a format to be found: below, a pattern is made from the lines."""

PATTERN_READERS = frozenset({"grok", "regex", "dissect"})
"""Parsers by which a recipe may read the lines of programs that it is not for: many write the same header."""

MANY_FIELDS = 6
"""Fields of an event that only its own format has: a header has time, level, thread, component and message."""

LEAST_OWN = 0.35
"""The share of lines that must have a word of the recipe's program."""

_PAIR = re.compile(r"""[\w.@-]+[=:]("[^"]*"|'[^']*'|[^\s,;|]*)[\s,;|]*""")

SYSLOG_HEADER = (("host.hostname",), ("process.name", "log.syslog.appname"))
"""What nearly all lines have that are syslog."""

LEAST_FIELDS = 0.5
"""Fields that an event must have on average: less is no format."""

LEAST_LIKENESS = 0.1
"""How like a recipe's own lines a sample has to be for the recipe to be tried at all."""


def matches(sample: Sample, wanted: str | None = None, doing: Callable[[str], None] = lambda _: None) -> list[Match]:
    """All that reads some of a sample, the best first.

    The parsers and the recipes most like the sample are tried; then patterns are made from the lines, and where all of that
    reads less than half of the events, the other recipes are tried; ``wanted`` is a recipe to try in any case, ``doing`` is
    called with what is done.
    """
    with times_compiled():
        return _matches(sample, wanted, doing)


def _matches(sample: Sample, wanted: str | None, doing: Callable[[str], None]) -> list[Match]:
    doing("looking for recipes like it")
    known = _known()
    likeness = by_likeness(sample.lines[:LIKE_LINES], known)
    order = [one for one, share in likeness.items() if share >= LEAST_LIKENESS]
    near = [one for one in order[:NEAREST] if likeness[one] >= NEARLY * likeness[order[0]]]
    near += [one for one in known if one.name == wanted and one not in near]
    candidates = chain(_built(near, sample, wanted), parser_candidates(sample.lines, wanted), _tables(sample))
    found = _tried(candidates, sample, doing)
    best = ranked(found, likeness)
    if wanted != MADE and best and is_settled(best[0], sample, known):
        return best
    doing("making patterns from the lines")
    found += _made(sample)
    if not any(2 * one.rate >= 1 for one in found):
        found += _tried(_built((one for one in order if one not in near), sample, wanted), sample, doing)
    return ranked(found, likeness, {one.candidate.name for one in found if is_doubtful(one, sample, known)})


def _tables(sample: Sample) -> Iterator[Candidate]:
    """Delimited values whose first line does not name them."""
    named = any(candidate.options.get("header") for candidate in parser_candidates(sample.lines[:1], "csv"))
    table = None if named else csv_table(sample.lines)
    if table is not None:
        yield table_candidate(table)


def _made(sample: Sample) -> list[Match]:
    """What is made from the lines themselves, as far as it reads them."""
    made = proposal(sample.lines)
    return _tried([made_candidate(made)], sample) if made else []


def is_settled(best: Match, sample: Sample, known: Sequence[Signature]) -> bool:
    """Whether nothing better can be made from the lines: it reads nearly all, and knows what it reads.

    Comments are no events: nobody has to read them. Pairs are all of a line, not part of it.
    """
    comments = sum(1 for line in sample.lines if line.startswith("#")) / len(sample.lines)
    return best.rate >= ENOUGH * (1 - comments) and not is_doubtful(best, sample, known)


def is_doubtful(one: Match, sample: Sample, known: Sequence[Signature]) -> bool:
    """Whether lines may be something else than what it reads them as."""
    if one.candidate.recipe is None and one.candidate.name == "key_value":
        return _pairs_share(sample) < ENOUGH
    return is_any_program(one, sample, known)


def is_any_program(one: Match, sample: Sample, known: Sequence[Signature]) -> bool:
    """Whether it reads no more than a header that many programs write, and nothing says that it is this program's.

    Syslog has hosts and programs; the lines of a recipe's program have words that hardly any other program writes.
    """
    candidate = one.candidate
    if candidate.recipe and one.filled >= MANY_FIELDS:
        return False
    if "syslog" in candidate.types:
        return not all(_share_of(one, names) >= ENOUGH for names in SYSLOG_HEADER)
    if candidate.recipe is None or not candidate.opening & PATTERN_READERS:
        return False
    return own_words(candidate.name, sample.lines[:LIKE_LINES], known) < LEAST_OWN


def _pairs_share(sample: Sample) -> float:
    """The share of the lines that are pairs and little else."""
    lines = sample.lines[:LIKE_LINES]
    return sum(1 for line in lines if len(_PAIR.sub("", line)) < 0.25 * len(line)) / len(lines)


def _share_of(one: Match, names: Iterable[str]) -> float:
    """The share of events that have a field; the largest of several fields."""
    counts = [sum(b.num_rows - b.column(name).null_count for b in one.batches if name in b.schema.names) for name in names]
    return max(counts) / one.events


@cache
def _known() -> list[Signature]:
    return signatures(recipes())


def _built(known: Iterable[Signature], sample: Sample, wanted: str | None) -> Iterator[Candidate]:
    """Recipes that may read the sample, and the wanted one."""
    built = (candidate for one in known if (candidate := recipe_candidate(one.name, one.path)))
    return (one for one in built if one.name == wanted or may_open(one, sample.lines))


def _tried(candidates: Iterable[Candidate], sample: Sample, doing: Callable[[str], None] = lambda _: None) -> list[Match]:
    def run(candidate: Candidate) -> Match | None:
        doing(f"trying the {candidate.kind} {candidate.name}")
        return match(candidate, sample)

    tried = map(run, candidates)
    return [one for one in tried if one and one.read and one.filled >= LEAST_FIELDS and _is_sound(one)]


def _is_sound(one: Match) -> bool:
    """Whether a parser alone reads something, and no word that is something else for a host or a program."""
    return not reads_nonsense(one) and not misreads(one)
