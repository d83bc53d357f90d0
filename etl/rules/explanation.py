"""How a set of rules is held against events, in lines to read: what is shared, what is looked for together, who is looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from etl.api import Schema, cut
from etl.rules.compiled_rules import InForce
from etl.rules.conditions.contradictions import contradiction
from etl.rules.conditions.predicates import (
    ANY_FIELD,
    Network,
    Number,
    Pattern,
    Predicate,
    Present,
    SameField,
    Sql,
    Text,
    fields_of,
)
from etl.rules.conditions.tree import leaves
from etl.rules.conditions.wording import LONGEST, counted, said
from etl.rules.engine.batch_engine import Engine
from etl.rules.search.regex_search import engine as regex_engine

MOST_FIELDS, MOST_SHARED, MOST_NAMED = 6, 3, 3
_OTHERS: Mapping[type, tuple[str, str]] = {
    Network: ("network", " in sorted bounds"),
    Number: ("number", " by order"),
    Present: ("test", " for null"),
    SameField: ("comparison", ""),
}
"""Predicates that are neither texts nor expressions."""

_PLACES = {"contains": "anywhere", "startswith": "at the start", "endswith": "at the end", "equals": "whole"}


def explained(force: InForce, schema: Schema) -> Iterator[str]:
    """Ten lines or so, however many rules."""
    yield f"{counted(len(force.rules), 'rule')}, version {force.version}" + _others(force)
    if not force.rules:
        return
    engine = force.engine(schema)
    uses = [{leaf.predicate for leaf in leaves(condition)} for condition in engine.conditions]
    yield from _shared(uses)
    yield from _fields(engine.predicates)
    yield from _witnesses(force, engine)
    yield from _never(force, engine)


def _others(force: InForce) -> str:
    parts = [f"{len(force.elsewhere):,} for other log sources"] if force.elsewhere else []
    parts += [f"{len(force.problems):,} left out, the first: {cut(str(force.problems[0]), 200)}"] if force.problems else []
    return "".join(f"; {part}" for part in parts)


def _shared(uses: Sequence[set[Predicate]]) -> Iterator[str]:
    """How many predicates are decided once for several rules."""
    count = Counter(predicate for one in uses for predicate in one)
    yield f"predicates: {sum(count.values()):,}, {len(count):,} of them distinct"
    several = [f"{said(predicate)} by {rules:,} rules" for predicate, rules in count.most_common(MOST_SHARED) if rules > 1]
    if several:
        yield f"shared: {', '.join(several)}"


def _fields(predicates: Sequence[Predicate]) -> Iterator[str]:
    by_field: dict[str, list[Predicate]] = {}
    for predicate in predicates:
        names = fields_of(predicate) - {ANY_FIELD}
        by_field.setdefault(", ".join(sorted(names)) or "no field", []).append(predicate)
    ordered = sorted(by_field.items(), key=lambda one: (-len(one[1]), one[0]))
    for name, mine in ordered[:MOST_FIELDS]:
        yield f"{name}: {'; '.join(_decided(mine))}"
    if rest := ordered[MOST_FIELDS:]:
        yield f"{counted(len(rest), 'further field')}: {counted(sum(len(mine) for _, mine in rest), 'predicate')}"


def _decided(predicates: Sequence[Predicate]) -> Iterator[str]:
    """The predicates on one field, by what decides them."""
    texts = [one for one in predicates if isinstance(one, Text)]
    if texts:
        kinds = Counter(_PLACES[one.kind] for one in texts)
        places = ", ".join(f"{count:,} {place}" for place, count in kinds.most_common())
        yield f"{counted(len(texts), 'literal')} in one scan ({places})"
    tried = [one for one in predicates if isinstance(one, Pattern | Sql)]
    if tried:
        everywhere = [one for one in tried if not one.literals]
        slow = sum(isinstance(one, Pattern) and regex_engine(one.pattern) == "regex" for one in tried)
        behind = (
            f"{len(tried) - len(everywhere):,} behind {counted(sum(len(one.literals) for one in tried), 'literal')} of the scan"
        )
        more = f", {slow:,} backtracking" if slow else ""
        yield f"{counted(len(tried), 'expression')} ({behind}, {len(everywhere):,} on every distinct text{more})"
    yield from _ordered(predicates)


def _ordered(predicates: Iterable[Predicate]) -> Iterator[str]:
    counts = Counter(type(one) for one in predicates)
    for kind, (thing, how) in _OTHERS.items():
        if counts[kind]:
            yield f"{counted(counts[kind], thing)}{how}"


def _witnesses(force: InForce, engine: Engine) -> Iterator[str]:
    each = [engine.program.witnesses_of(rule) for rule in range(len(force.rules))]
    without = [rule for rule, mine in enumerate(each) if -1 in mine]
    known = [mine for mine in each if mine and -1 not in mine]
    if known:
        distinct = counted(len({predicate for mine in known for predicate in mine}), "predicate")
        looked_at = f"{counted(len(known), 'rule')} looked at only where one of {distinct} holds"
        yield f"witnesses: {looked_at} (a run chooses by what it sees)"
    if without:
        titles = ", ".join(repr(cut(force.rules[rule].title, LONGEST)) for rule in without[:MOST_NAMED])
        yield f"without a witness, looked at in every row: {counted(len(without), 'rule')}: {titles}{_more(without)}"


def _never(force: InForce, engine: Engine) -> Iterator[str]:
    each = [(rule.title, contradiction(condition)) for rule, condition in zip(force.rules, engine.conditions, strict=True)]
    found = [(title, why) for title, why in each if why]
    if found:
        titles = "; ".join(f"{cut(title, LONGEST)!r}: {cut(why, 2 * LONGEST)}" for title, why in found[:MOST_NAMED])
        yield f"never true here: {counted(len(found), 'rule')}: {titles}{_more(found)}"


def _more(all_: Sequence[object]) -> str:
    return ", …" if len(all_) > MOST_NAMED else ""
