"""The sources of rules: the options that the steps `rules` and `correlate` share."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from etl.api import NOTICE, Expression, Finding, LookupTable, Schema, Step, visible

if TYPE_CHECKING:
    from etl.rules.correlation.model import Correlation
    from etl.rules.reload.changes import RuleIndex
    from etl.rules.reload.rule_cache import RuleText
    from etl.rules.rule import Rule, RuleProblem, RuleSet
    from etl.rules.sigma.taxonomy import Taxonomy
    from etl.tables.table_store import TableRequest

log = logging.getLogger("sluice.rules")


class RuleTest(BaseModel):
    """An event, and whether a rule is to match it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: dict[str, Any] = Field(description="The event; objects in it are dotted fields.", examples=[{"user_name": "root"}])
    matches: bool = Field(default=True, description="Whether the rule is to match it.")


class OwnRule(BaseModel):
    """A rule of the pipeline: a name and a condition."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, description="The rule's name, which is its id, too, if it has none.", examples=["root login"])
    id: str | None = Field(
        default=None,
        min_length=1,
        description="The rule's id in matches; no two rules have the same.",
        examples=["auth-17"],
    )
    where: Expression = Field(description="The condition, in Spark SQL.", examples=["user_name = 'root'"])
    level: Literal["informational", "low", "medium", "high", "critical"] | None = Field(
        default=None, description="How serious a match is."
    )
    tags: tuple[str, ...] = Field(default=(), description="Words by which matches of the rule are found.")
    author: str | None = Field(default=None, description="Who wrote the rule.")
    metadata: dict[str, Any] = Field(
        default={}, description="Anything else about the rule; matches have the keys that `metadata` of the step names."
    )
    tests: tuple[RuleTest, ...] = Field(
        default=(),
        description="Events that `etl rules test` tries the rule on.",
        examples=[[{"event": {"user_name": "root"}}, {"event": {"user_name": "guest"}, "matches": False}]],
    )


class RuleSources(Step):
    """A step with rules: of files, of tables, and its own."""

    files: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Files of rules, or patterns of their names.", examples=[["rules/**/*.yml"]]
    )
    rules: tuple[OwnRule, ...] = Field(default=(), description="Rules of the pipeline itself, in addition to those in files.")
    tables: Mapping[str, str] = Field(
        default={},
        description="Tables whose rows are rules: the table, as `tables` of the file names it → the column with their YAML.",
        examples=[{"hunting": "rule"}],
    )
    taxonomy: str | None = Field(
        default=None,
        alias="fields",
        min_length=1,
        description="File that maps Sigma's names of fields and log sources to the stream's.",
        examples=["sigma/windows.yml"],
    )
    placeholders: dict[str, tuple[str, ...]] = Field(
        default={},
        description="Values of `%name%` in Sigma rules, in addition to those of the file of fields.",
        examples=[{"admins": ["alice", "bob"]}],
    )

    _tables: Mapping[str, LookupTable] = PrivateAttr(default_factory=dict)
    _folder: str | None = PrivateAttr(default=None)

    def named_tables(self) -> Mapping[tuple[str | int, ...], str]:
        return {("tables", name): name for name in self.tables}

    def with_tables(self, tables: Mapping[str, LookupTable], folder: str | None = None) -> Self:
        step = self.model_copy()
        step._tables = {**self._tables, **{name: table for name, table in tables.items() if name in self.tables}}
        step._folder = folder
        return step

    def table_requests(self) -> Iterable[TableRequest]:
        """The columns of its tables that it needs."""
        from etl.steps.detection.rule_tables import request_rules

        return [request_rules(name, self._tables[name], column) for name, column in self.tables.items()]

    def rule_findings(self, incoming: Schema) -> Iterator[Finding]:
        """No rules, a bad file of fields, conditions that these fields make impossible, rules that cannot be loaded."""
        from etl.rules.reader import read_rules
        from etl.rules.sigma.taxonomy import TaxonomyError, read_taxonomy
        from etl.steps.detection.rule_checks import file_findings, own_findings, table_findings

        if not self.files and not self.rules and not self.tables:
            hint = "give files of rules, tables of them, or rules themselves"
            yield Finding("no-rules", "there are neither files nor tables nor rules", (), hint)
        yield from own_findings(self.rules, visible(incoming))
        yield from table_findings(self.tables, self._tables)
        try:
            names = read_taxonomy(self.taxonomy)
        except TaxonomyError as error:
            yield Finding("bad-taxonomy", str(error), ("fields",))
        else:
            own = read_rules((), self.written())
            yield from file_findings(self.files, own, replace(names, placeholders=self.filled(names)), visible(incoming))

    def cache_key(self, incoming: Schema) -> RuleCacheKey[Self]:
        """The key under which a process caches compiled rules: another one when they change."""
        return RuleCacheKey(self, self.model_dump_json(by_alias=True), self.rule_state(), incoming)

    def rule_state(self) -> tuple[object, ...]:
        """Another value when the published rules change: the states of files, the rows of tables."""
        from etl.rules.files import file_states
        from etl.rules.reload.taxonomy_cache import taxonomy_state

        return file_states(self.files), taxonomy_state(self.taxonomy), self._texts()

    def rule_set(self, incoming: Schema) -> RuleSet:
        """All published rules, and the correlations that name them. Raises TaxonomyError."""
        from etl.rules.correlation.families import resolve_names
        from etl.rules.reload.taxonomy_cache import current_taxonomy

        return resolve_names(self._read_published(current_taxonomy(self.taxonomy).taxonomy, visible(incoming)))

    def as_read(self) -> RuleSet:
        """Its own rules and those of files, good or bad. Raises TaxonomyError."""
        from etl.rules.files import find_rule_files
        from etl.rules.reader import read_rules
        from etl.rules.sigma.taxonomy import read_taxonomy

        return read_rules(find_rule_files(self.files), self.written(), self.filled(read_taxonomy(self.taxonomy)))

    def written(self) -> Sequence[Mapping[str, Any]]:
        """Its own rules, as documents."""
        return [rule.model_dump(mode="json", exclude_defaults=True) for rule in self.rules]

    def filled(self, taxonomy: Taxonomy) -> dict[str, Any]:
        """The values of placeholders by name."""
        return {**taxonomy.placeholders, **self.placeholders}

    def _read_published(self, taxonomy: Taxonomy, incoming: Schema) -> RuleSet:
        from etl.rules.compiled_rules import StreamSchema
        from etl.rules.reader import combine, read_rules
        from etl.rules.reload.rule_cache import read_current_rules

        own = read_rules((), self.written())
        if not self.files and not self.tables:
            return own
        filled = tuple(sorted((name, tuple(values)) for name, values in self.filled(taxonomy).items()))
        found = read_current_rules(self.files, self._texts(), filled, StreamSchema(self.taxonomy, incoming))
        return combine(own, found)

    def _texts(self) -> tuple[RuleText, ...]:
        """The texts of the rules of tables."""
        if not self.tables:
            return ()
        from etl.steps.detection.rule_tables import read_rule_texts

        return tuple(text for one in self.table_requests() for text in read_rule_texts(one, self.tables[one.name], self._folder))


StepT = TypeVar("StepT", bound=RuleSources)


@dataclass(frozen=True)
class RuleCacheKey(Generic[StepT]):
    """The key of a step's compiled rules: its options, the state of its sources, the incoming fields."""

    step: StepT = field(compare=False)
    options: str
    state: tuple[object, ...]
    incoming: Schema


_left_out: dict[str, tuple[str, ...]] = {}
"""Options of a step → the last logged problems of its rules."""


def log_left_out(key: RuleCacheKey[Any], problems: Sequence[RuleProblem]) -> None:
    """Log that rules are left out, when some are, and others than at the last time."""
    from etl.rules.wording import count_noun

    now = tuple(map(str, problems))
    if now != _left_out.get(key.options, ()):
        _left_out[key.options] = now
        if now:
            left_out = count_noun(len(now), "rule is", "rules are")
            log.warning("%s left out, the first: %s; `etl rules check` lists them", left_out, now[0])


_rules: dict[tuple[str, str], RuleIndex] = {}
"""Options and fields of a step → its rules at the last time."""


def log_changes(key: RuleCacheKey[Any], rules: Sequence[Rule | Correlation]) -> None:
    """Log which rules were added, changed or removed since the last call in this process."""
    from etl.rules.reload.changes import describe_changes, index_rules

    step = key.options, str(key.incoming)
    if step in _rules:
        for change in describe_changes(_rules[step], rules):
            log.log(NOTICE, "%s", change)
    _rules[step] = index_rules(rules)
