"""What a set of rules asks for, as lines to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from etl.rules.compiled_rules import fields_needed
from etl.rules.conditions.contradictions import contradiction
from etl.rules.conditions.predicates import ANY_FIELD, Pattern, Predicate, Sql, fields_of
from etl.rules.conditions.tree import leaves
from etl.rules.conditions.wording import counted
from etl.rules.correlation.report import correlation_lines
from etl.rules.files import NO_RULE
from etl.rules.rule import Rule, RuleSet
from etl.rules.search.regex_search import engine
from etl.rules.taxonomy import Taxonomy

MOST_SHOWN = 10


def report(rules: RuleSet, taxonomy: Taxonomy, columns: Sequence[str] | None) -> Iterator[str]:
    """Counts, fields (``columns``: those of the stream, None when they are not known) and what costs most."""
    yield from (f"{path}: {NO_RULE}" for path in rules.empty)
    adapted = [(rule, taxonomy.adapted(rule)) for rule in rules.rules]
    kept = [one for _, one in adapted if one is not None]
    yield f"{counted(len(rules.rules), 'rule')} loaded, {counted(len(rules.problems), 'problem')}, version {rules.version}"
    if len(kept) < len(adapted):
        yield f"{len(adapted) - len(kept):,} of them are for events of other log sources: {_sources(adapted)}"
    each = [list(dict.fromkeys(leaf.predicate for leaf in leaves(rule.condition))) for rule in kept]
    distinct = {predicate for one in each for predicate in one}
    yield f"{counted(sum(map(len, each)), 'predicate')}, {len(distinct):,} of them distinct"
    yield from _fields(kept, distinct, columns)
    yield from correlation_lines(rules, taxonomy, columns)
    yield from _costs(kept)


def _sources(adapted: Sequence[tuple[Rule, Rule | None]]) -> str:
    others = Counter("/".join(value for _, value in rule.logsource) for rule, kept in adapted if kept is None)
    return ", ".join(f"{name} {count}" for name, count in others.most_common(MOST_SHOWN))


def _fields(rules: Sequence[Rule], distinct: set[Predicate], columns: Sequence[str] | None) -> Iterator[str]:
    asked = Counter(name for predicate in distinct for name in fields_of(predicate) if name != ANY_FIELD)
    if asked:
        yield "fields: " + ", ".join(f"{name} {count}" for name, count in sorted(asked.items()))
    missing = Counter(name for rule in rules for name in fields_needed([rule]) if columns is not None and name not in columns)
    for name, count in missing.most_common():
        yield f"the stream has no field {name!r}, which {counted(count, 'rule asks', 'rules ask')} for"


def _costs(rules: Sequence[Rule]) -> Iterator[str]:
    """Rules that can never match, and those with predicates that no index decides."""
    for rule in rules:
        if why := contradiction(rule.condition):
            yield f"never matches: {rule.file}:{rule.line}: {rule.title!r}: {why}"
        for predicate in dict.fromkeys(leaf.predicate for leaf in leaves(rule.condition)):
            if why := _cost(predicate):
                yield f"slower: {rule.file}:{rule.line}: {rule.title!r}: {why}"


def _cost(predicate: Predicate) -> str | None:
    if isinstance(predicate, Pattern):
        if engine(predicate.pattern) == "regex":
            return f"{predicate.pattern!r} backtracks, text by text"
        if not predicate.literals:
            return f"{predicate.pattern!r} has no text that must be there: it is tried on every distinct text"
    if isinstance(predicate, Sql) and len(predicate.fields) > 1 and not predicate.literals:
        return f"{predicate.where!r} is computed for every event"
    return None
