"""A rule, the problem of a rule that cannot run, and a set of rules."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from etl.api import cut
from etl.rules.conditions.tree import Condition

if TYPE_CHECKING:
    from etl.rules.correlation.model import Correlation

MAX_SHOWN = 500
"""Characters of a message that are shown: it may quote a pattern of any length."""

Level = Literal["informational", "low", "medium", "high", "critical"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition, and what a match shows of it."""

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
    """Events that the rule must match, or with ``matches: false`` must not match."""
    name: str = ""
    """By which correlations may refer to it, besides its id."""


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """Why a rule or a file is left out."""

    file: str
    line: int
    message: str
    rule: str = ""
    """The rule's title."""

    names: tuple[str, ...] = ()
    """The ids and names by which correlations may refer to the rule."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"

    @property
    def text(self) -> str:
        """The rule's title and the message."""
        of = f"{self.rule!r}: " if self.rule else ""
        return f"{of}{cut(self.message, MAX_SHOWN)}"


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules that are used together, and the problems of those that could not be loaded."""

    rules: tuple[Rule, ...]
    problems: tuple[RuleProblem, ...] = ()
    outdated: tuple[RuleProblem, ...] = ()
    """Problems of new versions of files; the rules are those of the last good versions."""
    correlations: tuple[Correlation, ...] = ()
    empty: tuple[str, ...] = ()
    """Files that hold nothing, or only comments."""

    @property
    def version(self) -> str:
        """A hash of everything that decides about matches, and of what matches show."""
        digest = hashlib.sha256()
        for rule in self.rules:
            digest.update(repr((rule.id, rule.title, rule.condition, rule.level, rule.tags, rule.author, rule.metadata)).encode())
        for correlation in self.correlations:
            digest.update(repr(replace(correlation, file="", line=0)).encode())
        return digest.hexdigest()[:12]
