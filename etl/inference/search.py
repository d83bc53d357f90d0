"""The search for what reads a sample: parsers, recipes whose own lines are similar, and generated patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

from etl.inference.candidates import Candidate, may_open, parser_candidates, recipe_candidate, table_candidate
from etl.inference.csv_columns import find_csv_table
from etl.inference.grok.proposal import propose_grok
from etl.inference.grok.tokens import LEVELS
from etl.inference.made_candidate import NAME as MADE
from etl.inference.made_candidate import candidate_of_proposal
from etl.inference.match import Match, reads_nonsense, try_candidate
from etl.inference.ranking import rank_matches
from etl.inference.sample import Sample
from etl.inference.signatures import Signature, rank_by_likeness, share_of_own_words, signatures
from etl.inference.time_kernel import compiling_time_kernel
from etl.resources import recipes

LIKE_LINES = 100
"""Lines of the sample that are compared with the recipes' signatures."""

NEAREST, NEARLY = 8, 0.3
"""Maximum number of recipes tried first, and their least likeness as a share of the largest."""

ENOUGH = 0.8
"""Minimum share of events that a match must parse; below, patterns are generated from the lines."""

PATTERN_READERS = frozenset({"grok", "regex", "dissect"})
"""Parsers whose patterns may also match other programs' lines, because many programs write the same header."""

MANY_FIELDS = 6
"""Number of fields from which on a match is specific: a common header has time, level, thread, component and message."""

MIN_OWN_SHARE = 0.35
"""Minimum share of lines with a word of the recipe's program."""

_PAIR = re.compile(r"""[\w.@-]+[=:]("[^"]*"|'[^']*'|[^\s,;|]*)[\s,;|]*""")

SYSLOG_HEADER = (("host.hostname",), ("process.name", "log.syslog.appname"))
"""Fields that nearly all syslog lines have; one of each group is enough."""

MIN_FIELDS = 0.5
"""Minimum mean number of fields of an event."""

MIN_LIKENESS = 0.1
"""Minimum similarity of a sample to a recipe's lines for the recipe to be tried."""

MAX_WRONG_SHARE = 0.05
"""Maximum share of events in which the name of a host or program may look like a level."""

NAMES = ("host.hostname", "host.name", "process.name", "log.syslog.appname")


def find_matches(sample: Sample, requested: str | None = None, doing: Callable[[str], None] = lambda _: None) -> list[Match]:
    """All matches of a sample, the best first.

    Tries the parsers and the most similar recipes, then patterns generated from the lines; if these parse less than half of the
    events, also the other recipes. ``requested`` is a recipe to try in any case; ``doing`` is called with progress messages.
    """
    with compiling_time_kernel():
        return _find_matches(sample, requested, doing)


def _find_matches(sample: Sample, requested: str | None, doing: Callable[[str], None]) -> list[Match]:
    doing("looking for recipes like it")
    known = _recipe_signatures()
    likeness = rank_by_likeness(sample.lines[:LIKE_LINES], known)
    order = [one for one, share in likeness.items() if share >= MIN_LIKENESS]
    near = [one for one in order[:NEAREST] if likeness[one] >= NEARLY * likeness[order[0]]]
    near += [one for one in known if one.name == requested and one not in near]
    candidates = chain(
        _build_candidates(near, sample, requested), parser_candidates(sample.lines, requested), _table_candidates(sample)
    )
    found = _try_candidates(candidates, sample, doing)
    best = rank_matches(found, likeness)
    if requested != MADE and best and is_settled(best[0], sample, known):
        return best
    doing("making patterns from the lines")
    found += _match_generated_patterns(sample)
    if not any(2 * one.rate >= 1 for one in found):
        found += _try_candidates(_build_candidates((one for one in order if one not in near), sample, requested), sample, doing)
    return rank_matches(found, likeness, {one.candidate.name for one in found if is_doubtful(one, sample, known)})


def _table_candidates(sample: Sample) -> Iterator[Candidate]:
    """Delimited values whose first line does not name them."""
    named = any(candidate.options.get("header") for candidate in parser_candidates(sample.lines[:1], "csv"))
    table = None if named else find_csv_table(sample.lines)
    if table is not None:
        yield table_candidate(table)


def _match_generated_patterns(sample: Sample) -> list[Match]:
    """Matches of patterns generated from the lines."""
    made = propose_grok(sample.lines)
    return _try_candidates([candidate_of_proposal(made)], sample) if made else []


def is_settled(best: Match, sample: Sample, known: Sequence[Signature]) -> bool:
    """Whether generated patterns cannot be better: the match parses nearly all events, and its format is specific.

    Comments are not events. A line of pairs has pairs only, not pairs among other text.
    """
    comments = sum(1 for line in sample.lines if line.startswith("#")) / len(sample.lines)
    return best.rate >= ENOUGH * (1 - comments) and not is_doubtful(best, sample, known)


def is_doubtful(one: Match, sample: Sample, known: Sequence[Signature]) -> bool:
    """Whether the lines may have another format than the match's."""
    if one.candidate.recipe is None and one.candidate.name == "key_value":
        return _pairs_share(sample) < ENOUGH
    return is_any_program(one, sample, known)


def is_any_program(one: Match, sample: Sample, known: Sequence[Signature]) -> bool:
    """Whether the match parses only a header that many programs write, and no word identifies the recipe's program.

    Syslog lines have a host and a program; the lines of a recipe's program have words that hardly any other program writes.
    """
    candidate = one.candidate
    if candidate.recipe and one.filled >= MANY_FIELDS:
        return False
    if "syslog" in candidate.types:
        return not all(_share_of(one, names) >= ENOUGH for names in SYSLOG_HEADER)
    if candidate.recipe is None or not candidate.opening & PATTERN_READERS:
        return False
    return share_of_own_words(candidate.name, sample.lines[:LIKE_LINES], known) < MIN_OWN_SHARE


def _pairs_share(sample: Sample) -> float:
    """The share of the lines that are pairs and little else."""
    lines = sample.lines[:LIKE_LINES]
    return sum(1 for line in lines if len(_PAIR.sub("", line)) < 0.25 * len(line)) / len(lines)


def _share_of(one: Match, names: Iterable[str]) -> float:
    """The share of events that have a field; the largest of several fields."""
    counts = [sum(b.num_rows - b.column(name).null_count for b in one.batches if name in b.schema.names) for name in names]
    return max(counts) / one.events


@cache
def _recipe_signatures() -> list[Signature]:
    return [one for one in signatures(recipes()) if one.reads_file]


def _build_candidates(known: Iterable[Signature], sample: Sample, requested: str | None) -> Iterator[Candidate]:
    """Build the recipes that may read the sample, and the requested one."""
    built = (candidate for one in known if (candidate := recipe_candidate(one.name, one.path)))
    return (one for one in built if one.name == requested or may_open(one, sample.lines))


def _try_candidates(
    candidates: Iterable[Candidate], sample: Sample, doing: Callable[[str], None] = lambda _: None
) -> list[Match]:
    def run(candidate: Candidate) -> Match | None:
        doing(f"trying the {candidate.kind} {candidate.name}")
        return try_candidate(candidate, sample)

    tried = map(run, candidates)
    return [one for one in tried if one and one.read and one.filled >= MIN_FIELDS and _is_sound(one)]


def _is_sound(one: Match) -> bool:
    """Whether a parser alone parses something, and does not take another word for a host or program name."""
    levels = (_count_levels(one, name) for name in NAMES)
    return not reads_nonsense(one) and not any(count > MAX_WRONG_SHARE * one.events for count in levels)


def _count_levels(one: Match, name: str) -> int:
    """The number of events in which a field is a level: ``Info``, ``[DBG]``."""
    columns = (batch.column(name) for batch in one.batches if name in batch.schema.names)
    texts = (value for column in columns for value in column.to_pylist() if isinstance(value, str))
    return sum(text.strip("[](){}<>|:").lower() in LEVELS for text in texts)
