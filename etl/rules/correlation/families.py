"""Which rules and correlations a correlation builds on: names resolved to ids, chains of correlations as families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from etl.api import nearest
from etl.rules.correlation.model import BooleanExpression, Correlation, Expression, RulePresent, Threshold
from etl.rules.rule import Rule, RuleProblem, RuleSet


@dataclass(frozen=True)
class Family:
    """A correlation that gives alerts, and the correlations that it builds on."""

    members: tuple[Correlation, ...]
    """In the order of evaluation; the one that gives alerts is last."""

    @property
    def head(self) -> Correlation:
        """The member that gives alerts."""
        return self.members[-1]

    def above(self, member: Correlation) -> Iterator[Correlation]:
        """Return the members that build directly on a member."""
        return (other for other in self.members if member.id in other.rules)


def resolve_names(rules: RuleSet) -> RuleSet:
    """The set with ids instead of names in correlations; a correlation that names a missing rule becomes a problem."""
    names = _names(rules)
    resolved: dict[str, Correlation] = {}
    problems: list[RuleProblem] = []
    waiting = list(rules.correlations)
    while waiting:
        ready = [one for one in waiting if not _is_blocked(one, waiting, names)]
        for one in ready or waiting:
            wrong = _find_mistake(one, names, resolved, rules) if ready else "it builds on itself"
            if wrong:
                problems.append(RuleProblem(one.file, one.line, wrong, one.title))
            else:
                resolved[one.id] = _replace_names(one, names)
        waiting = [one for one in waiting if one not in ready] if ready else []
    in_order = tuple(resolved[one.id] for one in rules.correlations if one.id in resolved)
    all_problems = sorted((*rules.problems, *problems), key=lambda one: (one.file, one.line))
    return replace(rules, correlations=in_order, problems=tuple(all_problems))


def find_families(correlations: Sequence[Correlation]) -> list[Family]:
    """The families of resolved correlations: one for each that gives alerts, which silent ones do not."""
    known = {one.id: one for one in correlations}
    silent = silent_rules(correlations)
    return [Family(tuple(_members(one, known))) for one in correlations if one.id not in silent]


def silent_rules(correlations: Sequence[Correlation]) -> set[str]:
    """Ids of rules and correlations that are only parts of correlations: none that names them has ``generate``."""
    loud = {name for one in correlations if one.generate for name in one.rules}
    return {name for one in correlations for name in one.rules} - loud


def drop_silent_rules(rules: RuleSet) -> RuleSet:
    """The rules that give matches by themselves, without those that are only parts of correlations."""
    silent = silent_rules(rules.correlations)
    return replace(rules, rules=tuple(rule for rule in rules.rules if rule.id not in silent), correlations=())


def _names(rules: RuleSet) -> dict[str, str]:
    """Ids and names of rules and correlations → their ids."""
    found: dict[str, str] = {}
    known: list[Rule | Correlation] = [*rules.rules, *rules.correlations]
    for one in known:
        found.setdefault(one.id, one.id)
        if one.name:
            found.setdefault(one.name, one.id)
    return found


def _is_blocked(one: Correlation, waiting: Sequence[Correlation], names: Mapping[str, str]) -> bool:
    """Whether it builds on one that is not resolved yet."""
    ids = {other.id for other in waiting}
    return any(names.get(name) in ids for name in one.rules)


def _find_mistake(one: Correlation, names: Mapping[str, str], resolved: Mapping[str, Correlation], rules: RuleSet) -> str | None:
    ids = {rule.id for rule in rules.rules}
    left_out = {name for problem in rules.problems for name in (problem.rule, *problem.names)}
    for name in one.rules:
        found = names.get(name)
        if found is None and name in left_out:
            return f"the rule {name!r}, on which it builds, is left out"
        if found is None:
            return f"there is no rule {name!r}; " + (nearest(name, names) or "rules are named by 'name' or 'id'")
        if found not in ids and found not in resolved:
            return f"the correlation {name!r}, on which it builds, is left out"
        if found in resolved and (wrong := _find_group_mistake(one, resolved[found], name)):
            return wrong
    for alias, mapping in one.aliases.items():
        for name in mapping:
            if name not in one.rules and names.get(name) not in {names[rule] for rule in one.rules}:
                return f"the alias {alias!r} is for the rule {name!r}, which is not one of its rules"
    return None


def _find_group_mistake(one: Correlation, inner: Correlation, name: str) -> str | None:
    """A chain is evaluated group by group, so each group of the outer one must consist of whole groups of the inner one."""
    known = set(inner.group_by)
    for field in one.group_by:
        if one.field_of(field, name) not in known:
            listed = ", ".join(inner.group_by) or "nothing"
            return f"it groups by {field!r}, and the correlation {name!r}, on which it builds, by {listed}"
    if one.values:
        return f"{one.kind} looks at fields of events, and {name!r} is a correlation"
    return None


def _replace_names(one: Correlation, names: Mapping[str, str]) -> Correlation:
    aliases = {alias: {names[name]: field for name, field in mapping.items()} for alias, mapping in one.aliases.items()}
    condition = one.condition if isinstance(one.condition, Threshold) else _replace_names_in(one.condition, names)
    return replace(one, rules=tuple(names[name] for name in one.rules), aliases=aliases, condition=condition)


def _replace_names_in(expression: Expression, names: Mapping[str, str]) -> Expression:
    if isinstance(expression, RulePresent):
        return RulePresent(names.get(expression.rule, expression.rule))
    return BooleanExpression(expression.operator, tuple(_replace_names_in(part, names) for part in expression.operands))


def _members(head: Correlation, known: Mapping[str, Correlation]) -> list[Correlation]:
    """All correlations that a correlation builds on, each once, and then the correlation itself."""
    found: dict[str, Correlation] = {}
    for name in head.rules:
        if name in known:
            found.update((one.id, one) for one in _members(known[name], known))
    return [*found.values(), head]
