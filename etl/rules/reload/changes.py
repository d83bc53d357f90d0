"""Rules that were added, changed or removed while a run goes on, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from etl.rules.conditions.wording import counted
from etl.rules.correlation.model import Correlation
from etl.rules.rule import Rule

MOST_LINES = 5
"""Changes of one kind that have a line each; of more there is one line."""

Known: TypeAlias = Mapping[tuple[str, str], Rule | Correlation]
"""Rules and correlations by file and id."""


def known(rules: Sequence[Rule | Correlation]) -> Known:
    """Those of files and tables; the line may move without a change."""
    return {(one.file, one.id): replace(one, line=0) for one in rules}


def changes(before: Known, rules: Sequence[Rule | Correlation]) -> Iterator[str]:
    """What is new, other or gone."""
    now = {(one.file, one.id): one for one in rules}
    yield from _lines("added", [one for key, one in now.items() if key not in before])
    yield from _lines("changed", [one for key, one in now.items() if key in before and before[key] != replace(one, line=0)])
    yield from _lines("removed", [one for key, one in before.items() if key not in now])


def _lines(what: str, rules: Sequence[Rule | Correlation]) -> Iterator[str]:
    if len(rules) > MOST_LINES:
        yield f"{counted(len(rules), 'rule is', 'rules are')} {what}, the first: {_named(rules[0])}"
    else:
        yield from (f"{_named(one)} is {what}" for one in rules)


def _named(rule: Rule | Correlation) -> str:
    """A removed rule has no line any more."""
    kind = "correlation" if isinstance(rule, Correlation) else "rule"
    return f"{rule.file}:{rule.line}: {kind} {rule.title!r}" if rule.line else f"{rule.file}: {kind} {rule.title!r}"
