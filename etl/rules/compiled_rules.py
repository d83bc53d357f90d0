"""Rules put into force over a stream: the ones meant for its events, compiled, and what could not be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import Schema, visible
from etl.rules.conditions.predicates import ANY_FIELD, Sql, fields_of
from etl.rules.conditions.tree import Condition, leaves
from etl.rules.reload.current_taxonomy import standing_taxonomy
from etl.rules.rule import Problem, Rule, RuleSet
from etl.rules.taxonomy import Taxonomy

if TYPE_CHECKING:
    from etl.rules.engine.batch_engine import Engine, Switches


@dataclass(frozen=True)
class Stream:
    """What rules are put in front of: its fields, and the file that says what it calls Sigma's."""

    taxonomy: str | None
    schema: Schema

    def problems(self, rules: RuleSet) -> Sequence[Problem]:
        """What is wrong with the rules here. Raises TaxonomyError."""
        return in_force(rules, standing_taxonomy(self.taxonomy).taxonomy, self.schema).problems


@dataclass(frozen=True)
class InForce:
    """Rules over a stream's fields, in the order in which an engine numbers them."""

    rules: tuple[Rule, ...]
    """With conditions over predicates that can be decided."""

    elsewhere: tuple[Rule, ...]
    """Rules for events of other log sources."""

    problems: tuple[Problem, ...]
    missing: dict[str, int]
    """Fields that rules ask for and the stream lacks, and how many rules do."""

    version: str
    refused: tuple[Problem, ...] = ()
    """What is wrong with new versions of files whose rules stay as they were."""

    def engine(self, schema: Schema, switches: Switches | None = None) -> Engine:
        """Compiled."""
        from etl.rules.engine.batch_engine import Engine, Switches

        return Engine([rule.condition for rule in self.rules], schema, switches or Switches())


def in_force(rules: RuleSet, taxonomy: Taxonomy, schema: Schema) -> InForce:
    """Adapt the rules to a stream. Total: a rule that cannot be decided becomes a problem."""
    kept: list[Rule] = []
    elsewhere: list[Rule] = []
    problems = list(rules.problems)
    missing: dict[str, int] = {}
    for rule in rules.rules:
        adapted = taxonomy.adapted(rule)
        if adapted is None:
            elsewhere.append(rule)
        elif wrong := _wrong(adapted.condition, schema):
            problems.append(Problem(rule.file, rule.line, wrong, rule.title))
        else:
            kept.append(adapted)
            for name in fields_needed([adapted]) - set(schema.names):
                missing[name] = missing.get(name, 0) + 1
    return InForce(tuple(kept), tuple(elsewhere), tuple(problems), missing, RuleSet(tuple(kept)).version, rules.refused)


def decided(rules: RuleSet, taxonomy: Taxonomy, schema: Schema) -> RuleSet:
    """Without the rules that cannot be decided in front of these fields."""
    problems = in_force(rules, taxonomy, schema).problems
    wrong = {(one.file, one.line, one.rule) for one in problems} - {(one.file, one.line, one.rule) for one in rules.problems}
    kept = tuple(rule for rule in rules.rules if (rule.file, rule.line, rule.title) not in wrong)
    return replace(rules, rules=kept, problems=problems)


def readable(rules: RuleSet, columns: Sequence[str] | None) -> RuleSet:
    """Without the rules whose SQL is wrong whatever types fields have; ``columns`` are those of the stream, if they are known."""
    wrong = {rule: message for rule in rules.rules if (message := _unreadable(rule, columns))}
    problems = [*rules.problems, *(Problem(rule.file, rule.line, message, rule.title) for rule, message in wrong.items())]
    kept = tuple(rule for rule in rules.rules if rule not in wrong)
    return replace(rules, rules=kept, problems=tuple(sorted(problems, key=lambda one: (one.file, one.line))))


def _unreadable(rule: Rule, columns: Sequence[str] | None) -> str | None:
    conditions = [leaf.predicate.where for leaf in leaves(rule.condition) if isinstance(leaf.predicate, Sql)]
    if not conditions:
        return None
    from etl.rules.conditions.spark_sql import names_in

    names = {name for where in conditions for name in names_in(where)} if columns is None else columns
    return _wrong(rule.condition, pa.schema([(name, pa.null()) for name in names]))


def fields_needed(rules: Sequence[Rule]) -> set[str]:
    """The fields that Sigma rules ask for; those of SQL conditions are known in front of a schema only."""
    found: set[str] = set()
    for rule in rules:
        for leaf in leaves(rule.condition):
            if not isinstance(leaf.predicate, Sql):
                found |= fields_of(leaf.predicate)
    return found - {ANY_FIELD}


def _wrong(condition: Condition, schema: Schema) -> str | None:
    """Why a condition cannot be decided; only SQL can be wrong in front of a schema."""
    written = [leaf.predicate.where for leaf in leaves(condition) if isinstance(leaf.predicate, Sql)]
    if not written:
        return None
    from etl.rules.conditions.spark_sql import BindError, sql_condition

    try:
        for where in written:
            sql_condition(where, visible(schema))
    except BindError as error:
        return str(error)
    return None
