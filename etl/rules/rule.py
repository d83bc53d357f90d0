"""Rules, what is wrong with others, and a set of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from etl.api import cut
from etl.rules.conditions.tree import Condition

if TYPE_CHECKING:
    from etl.rules.correlation.model import Correlation

MOST_SAID = 500
"""Characters of a message that are shown: it may quote a pattern of any length."""

Level = Literal["informational", "low", "medium", "high", "critical"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition, and what is told of an event it is true for."""

    id: str
    title: str
    condition: Condition
    level: str | None = None
    tags: tuple[str, ...] = ()
    author: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    logsource: tuple[tuple[str, str], ...] = ()
    """Category, product and service of a Sigma rule."""
    file: str = ""
    line: int = 0
    tests: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """Events that it must fire for, or with ``matches: false`` must not."""
    name: str = ""
    """What correlations may call it, beside its id."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a rule, or a whole file, is not among the rules."""

    file: str
    line: int
    message: str
    rule: str = ""

    names: tuple[str, ...] = ()
    """What correlations may call the rule."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"

    @property
    def text(self) -> str:
        """The rule's title and what is wrong with it."""
        of = f"{self.rule!r}: " if self.rule else ""
        return f"{of}{cut(self.message, MOST_SAID)}"


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules that go together, and what could not be loaded."""

    rules: tuple[Rule, ...]
    problems: tuple[Problem, ...] = ()
    refused: tuple[Problem, ...] = ()
    """Of files that have become bad: what is wrong with them now. Their rules are those of before."""
    correlations: tuple[Correlation, ...] = ()
    empty: tuple[str, ...] = ()
    """Files without anything in them but comments."""

    @property
    def version(self) -> str:
        """Changes when a rule does: of everything that decides about matches and of what is told of them."""
        seen = hashlib.sha256()
        for rule in self.rules:
            seen.update(repr((rule.id, rule.title, rule.condition, rule.level, rule.tags, rule.author, rule.metadata)).encode())
        for correlation in self.correlations:
            seen.update(repr(replace(correlation, file="", line=0)).encode())
        return seen.hexdigest()[:12]
