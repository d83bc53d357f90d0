"""Match many rules against every event."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from etl.api import ArrowStep, ComponentError, Expression, Finding, Outcome, Schema, visible

if TYPE_CHECKING:
    from etl.rules.in_force import InForce
    from etl.rules.rule import RuleSet
    from etl.rules.taxonomy import Taxonomy

MOST_CHECKED = 50
"""Files of rules that `etl lint` reads; ``etl rules check`` reads any number."""

log = logging.getLogger("sluice.rules")
_WILD = re.compile(r"[*?\[]")

MOST_NOTES = 8
"""Lines of `etl explain`."""


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
    become bad counts as it was before, which the log says.

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

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """No rules, a bad file of fields, conditions that do not go with these fields, rules that cannot be loaded."""
        if not self.files and not self.rules:
            yield Finding("no-rules", "there are neither files nor rules", (), "give files of rules, or rules themselves")
        yield from self._check_own(incoming)
        yield from self._check_taxonomy()

    def _check_taxonomy(self) -> Iterator[Finding]:
        from etl.rules.taxonomy import TaxonomyError, read_taxonomy

        try:
            taxonomy = read_taxonomy(self.taxonomy)
        except TaxonomyError as error:
            yield Finding("bad-taxonomy", str(error), ("fields",))
        else:
            yield from self._check_files(taxonomy)

    def _check_own(self, incoming: Schema) -> Iterator[Finding]:
        from etl.expressions import analyse

        names: set[str] = set()
        for place, rule in enumerate(self.rules):
            if rule.name in names:
                yield Finding("duplicate-rule", f"another rule has the name {rule.name!r}", ("rules", place, "name"))
            names.add(rule.name)
            analysis = analyse(rule.where, visible(incoming))
            yield from analysis.findings_at("rules", place, "where")
            if not analysis.errors and analysis.spark_reason:
                message = f"the condition needs Spark, where rules do not run: {analysis.spark_reason}"
                yield Finding("rule-needs-spark", message, ("rules", place, "where"), "use a filter for it", at=0)
            elif not analysis.errors and analysis.type not in (pa.bool_(), pa.null()):
                yield Finding("not-boolean", "a condition is needed here", ("rules", place, "where"), at=0)

    def _check_files(self, taxonomy: Taxonomy) -> Iterator[Finding]:
        if not self.files:
            return
        from etl.rules.files import read_rules, rule_files

        files = []
        for place, pattern in enumerate(self.files):
            matching = rule_files([pattern])
            files += matching
            if not matching and not _WILD.search(pattern):  # rules may be published later
                yield Finding("no-rule-files", f"no file of rules is found by {pattern!r}", ("files", place), severity="warning")
        if len(files) <= MOST_CHECKED:
            for problem in read_rules(files, (), self._placeholders(taxonomy.placeholders)).problems:
                yield Finding("bad-rule", str(problem), ("files",), "the rule is left out", "warning")

    def fields(self, incoming: Schema) -> Schema:
        from etl.rules.told import fields_behind

        return fields_behind(self.output, incoming)

    def notes(self) -> Iterable[str]:
        """How many rules there are, what they share and which are slower."""
        from etl.rules.report import report
        from etl.rules.taxonomy import TaxonomyError, read_taxonomy

        try:
            taxonomy = read_taxonomy(self.taxonomy)
        except TaxonomyError as error:
            return [str(error)]
        return list(islice(report(self._published(taxonomy), taxonomy, None), MOST_NOTES))

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """The rules as they are published now, compiled; kept in the process while they stay the same."""
        from etl.rules.outputs import WRITE, told
        from etl.rules.taxonomy import TaxonomyError

        try:
            force, engine = self._compiled(incoming)
        except TaxonomyError as error:
            raise ComponentError(f"rules: {error}") from error
        of, write = told(force.rules, force.version), WRITE[self.output]

        def run(batch: pa.RecordBatch) -> Outcome:
            return Outcome(write(batch, engine.run(batch), of))

        return run

    def in_force(self, incoming: Schema) -> InForce:
        """The rules as they are published now, in front of these fields. Raises TaxonomyError."""
        from etl.rules.in_force import in_force
        from etl.rules.taxonomy import read_taxonomy

        taxonomy = read_taxonomy(self.taxonomy)
        return in_force(self._published(taxonomy), taxonomy, visible(incoming))

    def _compiled(self, incoming: Schema) -> tuple[InForce, Any]:
        from etl.rules.published import state_of
        from etl.rules.taxonomy import found

        state = state_of([*self.files, *([found(self.taxonomy)] if self.taxonomy else [])])
        return _engine(self.model_dump_json(by_alias=True), state, incoming)

    def _published(self, taxonomy: Taxonomy) -> RuleSet:
        from etl.rules.files import read_rules
        from etl.rules.published import published
        from etl.rules.rule import RuleSet

        own = read_rules((), [rule.model_dump(mode="json", exclude_defaults=True) for rule in self.rules])
        filled = tuple(sorted((name, tuple(values)) for name, values in self._placeholders(taxonomy.placeholders).items()))
        files = published(self.files, filled) if self.files else RuleSet(())
        return RuleSet((*own.rules, *files.rules), (*own.problems, *files.problems))

    def _placeholders(self, beside: Mapping[str, Any]) -> dict[str, Any]:
        return {**beside, **self.placeholders}


@lru_cache(maxsize=8)
def _engine(options: str, state: object, incoming: Schema) -> tuple[InForce, Any]:
    """Rules compiled once in a process, until a file changes."""
    force = Rules.model_validate_json(options).in_force(incoming)
    if force.problems:
        log.warning("%d rules are left out, the first: %s; `etl rules check` lists them", len(force.problems), force.problems[0])
    return force, force.engine(visible(incoming))
