"""Which rules and correlations a correlation builds on: names → ids, and chains of correlations as families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from etl.api import nearest
from etl.rules.correlation.model import Correlation, Expression, Joined, Seen, Threshold
from etl.rules.rule import Problem, Rule, RuleSet


@dataclass(frozen=True)
class Family:
    """A correlation that gives alerts, behind the correlations that it builds on."""

    members: tuple[Correlation, ...]
    """Those that others build on first, the one that gives alerts last."""

    @property
    def head(self) -> Correlation:
        """The one that gives alerts."""
        return self.members[-1]

    def above(self, member: Correlation) -> Iterator[Correlation]:
        """The members that build on one."""
        return (other for other in self.members if member.id in other.rules)


def resolved(rules: RuleSet) -> RuleSet:
    """The set with correlations that name rules by their ids; those whose rules are not there become problems."""
    names = _names(rules)
    kept: dict[str, Correlation] = {}
    problems: list[Problem] = []
    waiting = list(rules.correlations)
    while waiting:
        ready = [one for one in waiting if not _awaited(one, waiting, names)]
        for one in ready or waiting:
            wrong = _wrong(one, names, kept, rules) if ready else "it builds on itself"
            if wrong:
                problems.append(Problem(one.file, one.line, wrong, one.title))
            else:
                kept[one.id] = _by_ids(one, names)
        waiting = [one for one in waiting if one not in ready] if ready else []
    in_order = tuple(kept[one.id] for one in rules.correlations if one.id in kept)
    told = sorted((*rules.problems, *problems), key=lambda one: (one.file, one.line))
    return replace(rules, correlations=in_order, problems=tuple(told))


def families(correlations: Sequence[Correlation]) -> list[Family]:
    """Of resolved correlations those that give alerts: all but the ones that others build on and keep silent."""
    known = {one.id: one for one in correlations}
    silent = hidden(correlations)
    return [Family(tuple(_members(one, known))) for one in correlations if one.id not in silent]


def hidden(correlations: Sequence[Correlation]) -> set[str]:
    """Ids of rules that are parts of correlations only: none that names them says ``generate``."""
    loud = {name for one in correlations if one.generate for name in one.rules}
    return {name for one in correlations for name in one.rules} - loud


def standing(rules: RuleSet) -> RuleSet:
    """The rules that give matches by themselves: all but the silent parts of correlations."""
    silent = hidden(rules.correlations)
    return replace(rules, rules=tuple(rule for rule in rules.rules if rule.id not in silent), correlations=())


def _names(rules: RuleSet) -> dict[str, str]:
    """What rules and correlations are called → their ids."""
    found: dict[str, str] = {}
    known: list[Rule | Correlation] = [*rules.rules, *rules.correlations]
    for one in known:
        found.setdefault(one.id, one.id)
        if one.name:
            found.setdefault(one.name, one.id)
    return found


def _awaited(one: Correlation, waiting: Sequence[Correlation], names: Mapping[str, str]) -> bool:
    """Whether it builds on one that is not yet looked at."""
    ids = {other.id for other in waiting}
    return any(names.get(name) in ids for name in one.rules)


def _wrong(one: Correlation, names: Mapping[str, str], kept: Mapping[str, Correlation], rules: RuleSet) -> str | None:
    ids = {rule.id for rule in rules.rules}
    left_out = {name for problem in rules.problems for name in (problem.rule, *problem.names)}
    for name in one.rules:
        found = names.get(name)
        if found is None and name in left_out:
            return f"the rule {name!r}, on which it builds, is left out"
        if found is None:
            return f"there is no rule {name!r}; " + (nearest(name, names) or "rules are named by 'name' or 'id'")
        if found not in ids and found not in kept:
            return f"the correlation {name!r}, on which it builds, is left out"
        if found in kept and (wrong := _unfitting(one, kept[found], name)):
            return wrong
    for alias, mapping in one.aliases.items():
        for name in mapping:
            if name not in one.rules and names.get(name) not in {names[rule] for rule in one.rules}:
                return f"the alias {alias!r} is for the rule {name!r}, which is none of its rules"
    return None


def _unfitting(one: Correlation, inner: Correlation, name: str) -> str | None:
    """A chain is decided group by group, so that each group of the outer one must hold whole groups of the inner one."""
    known = set(inner.group_by)
    for field in one.group_by:
        if one.field_of(field, name) not in known:
            listed = ", ".join(inner.group_by) or "nothing"
            return f"it groups by {field!r}, and the correlation {name!r}, on which it builds, by {listed}"
    if one.values:
        return f"{one.kind} looks at fields of events, and {name!r} is a correlation"
    return None


def _by_ids(one: Correlation, names: Mapping[str, str]) -> Correlation:
    aliases = {alias: {names[name]: field for name, field in mapping.items()} for alias, mapping in one.aliases.items()}
    condition = one.condition if isinstance(one.condition, Threshold) else _expression_by_ids(one.condition, names)
    return replace(one, rules=tuple(names[name] for name in one.rules), aliases=aliases, condition=condition)


def _expression_by_ids(expression: Expression, names: Mapping[str, str]) -> Expression:
    if isinstance(expression, Seen):
        return Seen(names.get(expression.rule, expression.rule))
    return Joined(expression.word, tuple(_expression_by_ids(part, names) for part in expression.parts))


def _members(head: Correlation, known: Mapping[str, Correlation]) -> list[Correlation]:
    """A correlation behind all that it builds on, each once."""
    found: dict[str, Correlation] = {}
    for name in head.rules:
        if name in known:
            found.update((one.id, one) for one in _members(known[name], known))
    return [*found.values(), head]
