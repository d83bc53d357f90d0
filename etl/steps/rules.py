"""Match many rules against every event."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from etl.api import ArrowStep, ComponentError, Counting, Expression, Finding, Schema, Table, visible

if TYPE_CHECKING:
    from etl.rules.in_force import InForce
    from etl.rules.published import Text
    from etl.rules.rule import RuleSet
    from etl.rules.taxonomy import Taxonomy
    from etl.tables.store import Wanted

log = logging.getLogger("sluice.rules")


class OwnRule(BaseModel):
    """A rule of ours: a name and a condition."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, description="The rule's name, which is its id too.", examples=["root login"])
    where: Expression = Field(description="The condition, in Spark SQL.", examples=["user_name = 'root'"])
    level: Literal["informational", "low", "medium", "high", "critical"] | None = Field(
        default=None, description="How serious a match is."
    )
    tags: tuple[str, ...] = Field(default=(), description="Words to find the rule's matches by.")
    author: str | None = Field(default=None, description="Who wrote the rule.")
    metadata: dict[str, Any] = Field(default={}, description="Anything else that is to stand beside the rule.")


class Rules(ArrowStep):
    """Match rules against every event: Sigma rules and rules in Spark SQL, thousands at the cost of a few.

    ``files`` holds rules, one or several documents each: Sigma rules (specification 2.1), and rules of our own, which
    have a ``name`` and a ``where`` in Spark SQL, and may have ``level``, ``tags``, ``author``, ``metadata``. A rule that
    cannot be loaded, or that needs a field of another type, is left out and named by ``etl rules check``; the others run.
    Files are looked at with each micro-batch: a changed, new or removed one counts from the next on, and one that has
    become bad counts as it was before, which the log and the metrics say. Rules of ``tables`` come from a database or
    over HTTP, as often as the table's ``refresh`` says, and are treated the same, row by row. What each rule matched and
    the time it took stand in the run's summary and metrics.

    Sigma compares texts without regard to case unless ``cased`` says so, Spark SQL with regard to it. A Sigma rule asks
    a field that is missing or null for nothing: its selections are false, and ``not`` of them is true. In SQL a
    comparison with null is null, and only a condition that is true matches; a part that cannot be computed for an event,
    such as a cast that fails, counts as null. Keywords are looked for in all text fields. Regular expressions of Sigma
    are RE2's; those with look-around or back-references run text by text, for at most 0.1 s each.

    ``fields`` names a file that says what the stream calls Sigma's fields, which events a log source means and what
    placeholders stand for (`sigma/windows.yml` comes with the package); without its ``logsources`` every rule is tried
    on every event. Each match tells the rule's id, title, level, tags and author, and the version of the set of rules.

    ```yaml
    type: rules
    rules:
      - {name: shell by the web server, where: "process = 'sh' and parent like '%nginx%'", level: high, tags: [web]}
    output: matches
    ```
    """

    takes_views = True

    type: Literal["rules"] = "rules"
    files: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Files of rules, or patterns of their names.", examples=[["rules/**/*.yml"]]
    )
    rules: tuple[OwnRule, ...] = Field(default=(), description="Rules of our own, beside those in files.")
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
        description="What stands for `%name%` in Sigma rules, beside those of the file of fields.",
        examples=[{"admins": ["alice", "bob"]}],
    )
    output: Literal["matches", "annotate", "alerts"] = Field(
        default="matches",
        description=(
            "Keep the events that match, each with its list `rules`; keep all events with that list; or make one event of "
            "each match, with the rule in `rule.*`."
        ),
    )

    _tables: Mapping[str, Table] = PrivateAttr(default_factory=dict)
    _folder: str | None = PrivateAttr(default=None)

    def named_tables(self) -> Mapping[tuple[str | int, ...], str]:
        return {("tables", name): name for name in self.tables}

    def with_tables(self, tables: Mapping[str, Table], folder: str | None = None) -> Self:
        step = self.model_copy()
        step._tables = {**self._tables, **{name: table for name, table in tables.items() if name in self.tables}}
        step._folder = folder
        return step

    def wanted(self) -> Iterable[Wanted]:
        """What it needs of its tables."""
        from etl.steps.rule_tables import wanted

        return [wanted(name, self._tables[name], column) for name, column in self.tables.items()]

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """No rules, a bad file of fields, conditions that do not go with these fields, rules that cannot be loaded."""
        from etl.rules.taxonomy import TaxonomyError, read_taxonomy
        from etl.steps.rule_checks import file_findings, own_findings, table_findings

        if not self.files and not self.rules and not self.tables:
            hint = "give files of rules, tables of them, or rules themselves"
            yield Finding("no-rules", "there are neither files nor tables nor rules", (), hint)
        yield from own_findings([(rule.name, rule.where) for rule in self.rules], visible(incoming))
        yield from table_findings(self.tables, self._tables)
        try:
            placeholders = self._placeholders(read_taxonomy(self.taxonomy).placeholders)
        except TaxonomyError as error:
            yield Finding("bad-taxonomy", str(error), ("fields",))
        else:
            yield from file_findings(self.files, placeholders)

    def fields(self, incoming: Schema) -> Schema:
        from etl.rules.told import fields_behind

        return fields_behind(self.output, incoming)

    def notes(self, incoming: Schema) -> Iterable[str]:
        """How many rules there are, what they share, and how they are found."""
        from etl.rules.explained import explained
        from etl.rules.taxonomy import TaxonomyError

        here = self.model_copy(update={"tables": {}})
        for name in self.tables:
            yield f"the rules of table {name!r} are read when the run starts"
        try:
            yield from explained(here.in_force(incoming), visible(incoming))
        except TaxonomyError as error:
            yield str(error)

    def multiplies(self) -> bool:
        return self.output == "alerts"

    def open(self, incoming: Schema) -> Counting:
        """The rules as they are published now, compiled; kept in the process while they stay the same."""
        from etl.rules.files import state_of
        from etl.rules.matching import Matching
        from etl.rules.taxonomy import TaxonomyError, found

        texts = self._texts()
        state = state_of([*self.files, *([found(self.taxonomy)] if self.taxonomy else [])])
        try:
            force, engine = _engine(_Asked(self, self.model_dump_json(by_alias=True), state, texts, incoming))
        except TaxonomyError as error:
            raise ComponentError(f"rules: {error}") from error
        return Matching(force, engine, self.output)

    def in_force(self, incoming: Schema) -> InForce:
        """The rules as they are published now, in front of these fields. Raises TaxonomyError."""
        from etl.rules.correlation_families import standing
        from etl.rules.in_force import in_force
        from etl.rules.taxonomy import read_taxonomy

        return in_force(standing(self.rule_set(incoming)), read_taxonomy(self.taxonomy), visible(incoming))

    def rule_set(self, incoming: Schema) -> RuleSet:
        """All rules as they are published now, and the correlations that name them. Raises TaxonomyError."""
        from etl.rules.correlation_families import resolved
        from etl.rules.taxonomy import read_taxonomy

        return resolved(self._published(read_taxonomy(self.taxonomy), visible(incoming)))

    def _published(self, taxonomy: Taxonomy, incoming: Schema) -> RuleSet:
        from etl.rules.files import read_rules
        from etl.rules.in_force import Stream
        from etl.rules.published import published
        from etl.rules.rule import RuleSet

        own = read_rules((), [rule.model_dump(mode="json", exclude_defaults=True) for rule in self.rules])
        if not self.files and not self.tables:
            return own
        filled = tuple(sorted((name, tuple(values)) for name, values in self._placeholders(taxonomy.placeholders).items()))
        found = published(self.files, self._texts(), filled, Stream(self.taxonomy, incoming))
        return RuleSet((*own.rules, *found.rules), (*own.problems, *found.problems), found.refused, found.correlations)

    def _texts(self) -> tuple[Text, ...]:
        """The rules of tables."""
        if not self.tables:
            return ()
        from etl.steps.rule_tables import texts

        return tuple(text for one in self.wanted() for text in texts(one, self.tables[one.name], self._folder))

    def _placeholders(self, beside: Mapping[str, Any]) -> dict[str, Any]:
        return {**beside, **self.placeholders}


@dataclass(frozen=True)
class _Asked:
    """Rules in front of fields, and what they are made of now."""

    step: Rules = field(compare=False)
    options: str
    state: object
    texts: tuple[Text, ...]
    incoming: Schema


@lru_cache(maxsize=8)
def _engine(asked: _Asked) -> tuple[InForce, Any]:
    """Rules compiled once in a process, until they are others."""
    from etl.rules.collector import paused

    with paused():
        force = asked.step.in_force(asked.incoming)
        engine = force.engine(visible(asked.incoming))
    if force.problems:
        log.warning("%d rules are left out, the first: %s; `etl rules check` lists them", len(force.problems), force.problems[0])
    return force, engine
