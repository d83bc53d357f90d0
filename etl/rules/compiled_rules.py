"""Rules compiled for the fields of a stream, and the problems of those that cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.api import Schema, visible
from etl.rules.conditions.tree import Condition, leaves
from etl.rules.predicates.predicate import ANY_FIELD
from etl.rules.predicates.sql import Sql
from etl.rules.reload.taxonomy_cache import current_taxonomy
from etl.rules.rule import Rule, RuleProblem, RuleSet
from etl.rules.sigma.taxonomy import Taxonomy

if TYPE_CHECKING:
    from etl.rules.engine.batch_engine import Engine, Switches

_NO_FIELDS = pa.RecordBatch.from_pydict({"message": pa.nulls(1, pa.string())})
"""An event without fields: the number of rows of a batch is that of its columns."""


@dataclass(frozen=True)
class StreamSchema:
    """The fields of the stream that rules are compiled for, and the file that maps Sigma's names to them."""

    taxonomy: str | None
    schema: Schema

    def problems(self, rules: RuleSet) -> Sequence[RuleProblem]:
        """The problems of these rules with this stream. Raises TaxonomyError."""
        return compile_rules(rules, current_taxonomy(self.taxonomy).taxonomy, self.schema).problems


@dataclass(frozen=True)
class CompiledRules:
    """Rules over a stream's fields, in the order in which an engine numbers them."""

    rules: tuple[Rule, ...]
    """Their conditions can be evaluated on the stream's fields."""

    other_sources: tuple[Rule, ...]
    """Rules for events of other log sources."""

    problems: tuple[RuleProblem, ...]
    missing: dict[str, int]
    """Fields that the stream lacks, and how many rules use each."""

    version: str
    outdated: tuple[RuleProblem, ...] = ()
    """See `RuleSet.outdated`."""

    def engine(self, schema: Schema, switches: Switches | None = None) -> Engine:
        """An engine that runs the rules on batches."""
        from etl.rules.engine.batch_engine import Engine, Switches

        return Engine([rule.condition for rule in self.rules], schema, switches or Switches())


def compile_rules(rules: RuleSet, taxonomy: Taxonomy, schema: Schema) -> CompiledRules:
    """Adapt the rules to a stream. A rule that cannot be evaluated becomes a problem; nothing is raised."""
    compiled: list[Rule] = []
    other_sources: list[Rule] = []
    problems = list(rules.problems)
    missing: dict[str, int] = {}
    fields = set(schema.names)
    for rule in rules.rules:
        adapted = taxonomy.adapt(rule)
        if adapted is None:
            other_sources.append(rule)
        elif error := _find_sql_error(adapted.condition, schema):
            problems.append(RuleProblem(rule.file, rule.line, error, rule.title))
        else:
            compiled.append(adapted)
            for name in required_fields([adapted]) - fields:
                missing[name] = missing.get(name, 0) + 1
    version = RuleSet(tuple(compiled)).version
    return CompiledRules(tuple(compiled), tuple(other_sources), tuple(problems), missing, version, rules.outdated)


def drop_failing_rules(rules: RuleSet, taxonomy: Taxonomy, schema: Schema) -> RuleSet:
    """The set without the rules that cannot be evaluated on these fields; these become problems."""
    problems = compile_rules(rules, taxonomy, schema).problems
    wrong = {(one.file, one.line, one.rule) for one in problems} - {(one.file, one.line, one.rule) for one in rules.problems}
    valid_rules = tuple(rule for rule in rules.rules if (rule.file, rule.line, rule.title) not in wrong)
    return replace(rules, rules=valid_rules, problems=problems)


def drop_bad_sql(rules: RuleSet, columns: Sequence[str] | None) -> RuleSet:
    """The set without the rules whose SQL is wrong for any types of its fields; these become problems.

    ``columns`` are the stream's fields, None if they are unknown.
    """
    wrong = {rule: message for rule in rules.rules if (message := _find_error_for_any_type(rule, columns))}
    problems = [*rules.problems, *(RuleProblem(rule.file, rule.line, message, rule.title) for rule, message in wrong.items())]
    valid_rules = tuple(rule for rule in rules.rules if rule not in wrong)
    return replace(rules, rules=valid_rules, problems=tuple(sorted(problems, key=lambda one: (one.file, one.line))))


def match_event(rule: Rule, event: Mapping[str, Any], taxonomy: Taxonomy) -> bool | str:
    """Whether a rule matches one event, or why it cannot be evaluated. Objects in the event become dotted fields."""
    from etl.events import flatten

    try:
        batch = flatten(pa.RecordBatch.from_pylist([dict(event)])) if event else _NO_FIELDS
    except (pa.ArrowException, ValueError) as error:
        return f"the event cannot be read: {error}"
    compiled = compile_rules(RuleSet((rule,)), taxonomy, batch.schema)
    if compiled.problems:
        return compiled.problems[0].message
    if not compiled.rules:
        return "the rule is for events of another log source"
    return len(compiled.engine(batch.schema).run(batch).rule) > 0


def required_fields(rules: Sequence[Rule]) -> set[str]:
    """The fields that Sigma rules use. SQL conditions are left out: their fields are known only with a schema."""
    found: set[str] = set()
    for rule in rules:
        for leaf in leaves(rule.condition):
            if not isinstance(leaf.predicate, Sql):
                found |= leaf.predicate.field_names
    return found - {ANY_FIELD}


def _find_error_for_any_type(rule: Rule, columns: Sequence[str] | None) -> str | None:
    conditions = _sql_of(rule.condition)
    if not conditions:
        return None
    from etl.rules.conditions.spark_sql import column_names

    names = {name for where in conditions for name in column_names(where)} if columns is None else columns
    return _find_sql_error(rule.condition, pa.schema([(name, pa.null()) for name in names]))


def _find_sql_error(condition: Condition, schema: Schema) -> str | None:
    """Why a condition cannot be evaluated on these fields. Only SQL conditions can fail."""
    conditions = _sql_of(condition)
    if not conditions:
        return None
    from etl.rules.conditions.spark_sql import BindError, parse_sql_condition

    try:
        for where in conditions:
            parse_sql_condition(where, visible(schema))
    except BindError as error:
        return str(error)
    return None


def _sql_of(condition: Condition) -> list[str]:
    return [leaf.predicate.where for leaf in leaves(condition) if isinstance(leaf.predicate, Sql)]
