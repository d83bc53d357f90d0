"""A report on a set of rules, as lines of text: counts, fields, and which rules are slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from etl.rules.compiled_rules import required_fields
from etl.rules.conditions.contradictions import find_contradiction
from etl.rules.conditions.tree import leaves
from etl.rules.correlation.families import find_families, silent_rules
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.reader import SECOND
from etl.rules.correlation.routes import find_routes
from etl.rules.files import NO_RULE
from etl.rules.predicates.predicate import ANY_FIELD, Predicate
from etl.rules.rule import Rule, RuleSet
from etl.rules.sigma.taxonomy import Taxonomy
from etl.rules.wording import count_noun

MAX_SHOWN = 10


def report_lines(rules: RuleSet, taxonomy: Taxonomy, columns: Sequence[str] | None) -> Iterator[str]:
    """``columns`` are the stream's fields, None if they are unknown."""
    yield from (f"{path}: {NO_RULE}" for path in rules.empty)
    adapted = [(rule, taxonomy.adapt(rule)) for rule in rules.rules]
    usable_rules = [one for _, one in adapted if one is not None]
    yield f"{count_noun(len(rules.rules), 'rule')} loaded, {count_noun(len(rules.problems), 'problem')}, version {rules.version}"
    if len(usable_rules) < len(adapted):
        yield f"{len(adapted) - len(usable_rules):,} of them are for events of other log sources: {_other_sources(adapted)}"
    each = [list(dict.fromkeys(leaf.predicate for leaf in leaves(rule.condition))) for rule in usable_rules]
    distinct = {predicate for one in each for predicate in one}
    yield f"{count_noun(sum(map(len, each)), 'predicate')}, {len(distinct):,} of them distinct"
    yield from _field_lines(usable_rules, distinct, columns)
    yield from _correlation_lines(rules, taxonomy, columns)
    yield from _cost_lines(usable_rules)


def _other_sources(adapted: Sequence[tuple[Rule, Rule | None]]) -> str:
    others = Counter("/".join(value for _, value in rule.logsource) for rule, usable in adapted if usable is None)
    return ", ".join(f"{name} {count}" for name, count in others.most_common(MAX_SHOWN))


def _field_lines(rules: Sequence[Rule], distinct: set[Predicate], columns: Sequence[str] | None) -> Iterator[str]:
    used = Counter(name for predicate in distinct for name in predicate.field_names if name != ANY_FIELD)
    if used:
        yield "fields: " + ", ".join(f"{name} {count}" for name, count in sorted(used.items()))
    missing = Counter(name for rule in rules for name in required_fields([rule]) if columns is not None and name not in columns)
    for name, count in missing.most_common():
        yield f"the stream has no field {name!r}, which {count_noun(count, 'rule asks', 'rules ask')} for"


def _cost_lines(rules: Sequence[Rule]) -> Iterator[str]:
    """Rules that never match, and those with predicates that no index decides."""
    for rule in rules:
        if why := find_contradiction(rule.condition):
            yield f"never matches: {rule.file}:{rule.line}: {rule.title!r}: {why}"
        for predicate in dict.fromkeys(leaf.predicate for leaf in leaves(rule.condition)):
            if why := predicate.slow_reason():
                yield f"slower: {rule.file}:{rule.line}: {rule.title!r}: {why}"


# ── Correlations ──────────────────────────────────────────────────────────────────────────────────


def _correlation_lines(rules: RuleSet, taxonomy: Taxonomy, columns: Sequence[str] | None) -> Iterator[str]:
    """Counts, one line for each correlation, and the group fields that the stream lacks."""
    if not rules.correlations:
        return
    kinds = Counter(one.kind for one in rules.correlations)
    yield f"{count_noun(len(rules.correlations), 'correlation')}: " + ", ".join(
        f"{kind} {count}" for kind, count in sorted(kinds.items())
    )
    silent = silent_rules(rules.correlations) & {rule.id for rule in rules.rules}
    if silent:
        parts = count_noun(len(silent), "rule is part", "rules are parts")
        yield f"{parts} of correlations only, without matches in the step rules"
    for one in rules.correlations:
        yield f"correlation: {one.file}:{one.line}: {one.title!r}: {_describe(one)}"
    yield from _missing_fields(rules, taxonomy, columns)


def _describe(one: Correlation) -> str:
    groups = f" by {', '.join(one.group_by)}" if one.group_by else ""
    when = "with each event" if one.is_monotonic else "when its window has closed"
    return f"{one.kind} of {count_noun(len(one.rules), 'rule')}{groups} within {one.span_micros // SECOND:,} s, judged {when}"


def _missing_fields(rules: RuleSet, taxonomy: Taxonomy, columns: Sequence[str] | None) -> Iterator[str]:
    if columns is None:
        return
    for family in find_families(rules.correlations):
        names = {
            name for route in find_routes(family, rules.rules, taxonomy) for name in (*route.group, *route.part, *route.values)
        }
        for name in sorted(names - set(columns)):
            yield f"the stream has no field {name!r}, which the correlation {family.head.title!r} groups by or measures"
