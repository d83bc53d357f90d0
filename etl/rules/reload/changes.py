"""Describing which rules were added, changed or removed during a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from etl.rules.correlation.model import Correlation
from etl.rules.rule import Rule
from etl.rules.wording import count_noun

MAX_LINES = 5
"""Changes of one kind that have a line each; more have one line together."""

RuleIndex: TypeAlias = Mapping[tuple[str, str], Rule | Correlation]
"""Rules and correlations by file and id, with line 0: a rule that only moves has not changed."""


def index_rules(rules: Sequence[Rule | Correlation]) -> RuleIndex:
    """The rules by file and id."""
    return {(one.file, one.id): replace(one, line=0) for one in rules}


def describe_changes(before: RuleIndex, rules: Sequence[Rule | Correlation]) -> Iterator[str]:
    """Lines about the rules that are new, different or missing."""
    now = {(one.file, one.id): one for one in rules}
    yield from _lines("added", [one for key, one in now.items() if key not in before])
    yield from _lines("changed", [one for key, one in now.items() if key in before and before[key] != replace(one, line=0)])
    yield from _lines("removed", [one for key, one in before.items() if key not in now])


def _lines(what: str, rules: Sequence[Rule | Correlation]) -> Iterator[str]:
    if len(rules) > MAX_LINES:
        yield f"{count_noun(len(rules), 'rule is', 'rules are')} {what}, the first: {_describe(rules[0])}"
    else:
        yield from (f"{_describe(one)} is {what}" for one in rules)


def _describe(rule: Rule | Correlation) -> str:
    """A removed rule has no line."""
    kind = "correlation" if isinstance(rule, Correlation) else "rule"
    return f"{rule.file}:{rule.line}: {kind} {rule.title!r}" if rule.line else f"{rule.file}: {kind} {rule.title!r}"
