"""How a set of rules is evaluated, in lines for `etl explain`: shared predicates, scans, witnesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from etl.api import Schema, cut
from etl.rules.compiled_rules import CompiledRules
from etl.rules.conditions.contradictions import find_contradiction
from etl.rules.conditions.tree import leaves
from etl.rules.engine.batch_engine import Engine
from etl.rules.predicates.families import FAMILIES
from etl.rules.predicates.predicate import ANY_FIELD, LONGEST, Predicate
from etl.rules.wording import count_noun

MAX_FIELDS, MAX_SHARED, MAX_NAMED = 6, 3, 3


def explanation_lines(compiled: CompiledRules, schema: Schema) -> Iterator[str]:
    """About ten lines, for any number of rules."""
    yield f"{count_noun(len(compiled.rules), 'rule')}, version {compiled.version}" + _others(compiled)
    if not compiled.rules:
        return
    engine = compiled.engine(schema)
    uses = [{leaf.predicate for leaf in leaves(condition)} for condition in engine.conditions]
    yield from _describe_shared(uses)
    yield from _fields(engine.predicates)
    yield from _witnesses(compiled, engine)
    yield from _never(compiled, engine)


def _others(compiled: CompiledRules) -> str:
    parts = [f"{len(compiled.other_sources):,} for other log sources"] if compiled.other_sources else []
    if compiled.problems:
        parts.append(f"{len(compiled.problems):,} left out, the first: {cut(str(compiled.problems[0]), 200)}")
    return "".join(f"; {part}" for part in parts)


def _describe_shared(uses: Sequence[set[Predicate]]) -> Iterator[str]:
    """How many predicates several rules share."""
    count = Counter(predicate for one in uses for predicate in one)
    yield f"predicates: {sum(count.values()):,}, {len(count):,} of them distinct"
    several = [f"{predicate.describe()} by {rules:,} rules" for predicate, rules in count.most_common(MAX_SHARED) if rules > 1]
    if several:
        yield f"shared: {', '.join(several)}"


def _fields(predicates: Sequence[Predicate]) -> Iterator[str]:
    by_field: dict[str, list[Predicate]] = {}
    for predicate in predicates:
        names = predicate.field_names - {ANY_FIELD}
        by_field.setdefault(", ".join(sorted(names)) or "no field", []).append(predicate)
    ordered = sorted(by_field.items(), key=lambda one: (-len(one[1]), one[0]))
    for name, mine in ordered[:MAX_FIELDS]:
        yield f"{name}: {'; '.join(_summarize(mine))}"
    if rest := ordered[MAX_FIELDS:]:
        yield f"{count_noun(len(rest), 'further field')}: {count_noun(sum(len(mine) for _, mine in rest), 'predicate')}"


def _summarize(predicates: Sequence[Predicate]) -> Iterator[str]:
    """The predicates on one field by family; families with one summary are counted together."""
    groups: dict[Callable[[Sequence[Any]], str], list[Predicate]] = {}
    for family in FAMILIES:
        if mine := [one for one in predicates if type(one) is family]:
            groups.setdefault(family.summarize, []).extend(mine)
    yield from (summarize(mine) for summarize, mine in groups.items())


def _witnesses(compiled: CompiledRules, engine: Engine) -> Iterator[str]:
    each = [engine.program.witnesses_of(rule) for rule in range(len(compiled.rules))]
    without = [rule for rule, mine in enumerate(each) if -1 in mine]
    known = [mine for mine in each if mine and -1 not in mine]
    if known:
        distinct = count_noun(len({predicate for mine in known for predicate in mine}), "predicate")
        evaluated = f"{count_noun(len(known), 'rule')} looked at only where one of {distinct} holds"
        yield f"witnesses: {evaluated} (a run chooses by what it sees)"
    if without:
        titles = ", ".join(repr(cut(compiled.rules[rule].title, LONGEST)) for rule in without[:MAX_NAMED])
        yield f"without a witness, looked at in every row: {count_noun(len(without), 'rule')}: {titles}{_more(without)}"


def _never(compiled: CompiledRules, engine: Engine) -> Iterator[str]:
    each = [
        (rule.title, find_contradiction(condition)) for rule, condition in zip(compiled.rules, engine.conditions, strict=True)
    ]
    found = [(title, why) for title, why in each if why]
    if found:
        titles = "; ".join(f"{cut(title, LONGEST)!r}: {cut(why, 2 * LONGEST)}" for title, why in found[:MAX_NAMED])
        yield f"never true here: {count_noun(len(found), 'rule')}: {titles}{_more(found)}"


def _more(items: Sequence[object]) -> str:
    return ", …" if len(items) > MAX_NAMED else ""
