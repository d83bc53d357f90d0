"""All rules over a batch: predicates are evaluated field by field, then every rule in the rows where its witness holds."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from etl.api import HIDDEN, Schema
from etl.rules.conditions.column_types import TEXT_TYPES, is_list_type
from etl.rules.conditions.spark_sql import BindError
from etl.rules.conditions.tree import FALSE, Condition, Leaf, any_of, leaves, replace_leaves
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.column_texts import Column
from etl.rules.engine.costs import Costs
from etl.rules.engine.deferred_literals import DeferredLiterals
from etl.rules.engine.deferred_predicates import DeferredPredicates
from etl.rules.engine.evaluators import DeferringEvaluator, EvaluatorContext, EvaluatorFactory
from etl.rules.engine.program import Matches, Program
from etl.rules.engine.text_field import TextField
from etl.rules.predicates.predicate import ANY_FIELD, Predicate

log = logging.getLogger("sluice.rules")


@dataclass(frozen=True)
class Switches:
    """Optimizations that benchmarks and tests turn off, one at a time. Invariant: the matches are the same."""

    shared: bool = True
    """Equal predicates are evaluated once."""
    together: bool = True
    """All literals on one field are found in one scan."""
    distinct: bool = True
    """Each distinct text of a column is evaluated once."""
    literals: bool = True
    """A regular expression is tested only on texts with one of its literals, and on no text that is shorter than its matches."""
    automata: bool = True
    """A regular expression that RE2 compiles slowly, again for each batch, runs as an automaton that is compiled once."""
    witnesses: bool = True
    """A rule is evaluated only where its witness holds."""
    measured: bool = True
    """Witnesses are chosen by what was observed, not by a guess."""
    deferred: bool = True
    """Regular expressions and comparisons of two fields are evaluated only where a rule that needs them may match."""
    lazy: bool = True
    """In texts that do not repeat, only witnesses are searched for everywhere, other literals where a rule may match."""


_ROWS, _BITS = 1 << 16, 1 << 27
"""Maximum number of rows at once, and of rows times predicates: bounds the bit sets to 16 MiB."""


class Engine:
    """Conditions, compiled for the columns of a schema; compiled again if a batch has other columns."""

    def __init__(self, conditions: Sequence[Condition], schema: Schema, switches: Switches = Switches()) -> None:
        self._given, self._switches = conditions, switches
        self._last_schema: Schema | None = None
        self._compile(with_plain_texts(schema))

    def run(self, batch: pa.RecordBatch) -> Matches:
        """The conditions that are true in each row."""
        if batch.schema != self._last_schema:
            schema = with_plain_texts(batch.schema)
            if not self._types <= {(field.name, field.type) for field in schema}:
                self._compile(schema)
            self._last_schema = batch.schema
        max_rows = max(64, min(_ROWS, _BITS // max(len(self.predicates), 1)))
        parts = [self._run(batch.slice(first, max_rows)) for first in range(0, max(batch.num_rows, 1), max_rows)]
        return parts[0] if len(parts) == 1 else _concatenate(parts)

    # ── Compiling ─────────────────────────────────────────────────────────────────────────────────

    def _compile(self, schema: Schema) -> None:
        bound = [_bind(condition, schema) for condition in self._given]
        self.numbers = self._number_predicates(bound)
        self.predicates = [predicate for numbers in _distinct(self.numbers) for predicate in numbers]
        used = set().union(*(one.field_names for one in self.predicates)) if self.predicates else set()
        self._types = {(field.name, field.type) for field in schema if field.name in used}
        groups = self._group_predicates(schema)
        self._costs = Costs([[number for number, _ in members] for members in groups.values()])
        context = EvaluatorContext(schema, self._switches, self._costs.alone)
        self._evaluators = [kind(of, members, context) for (kind, of), members in groups.items()]
        self._deferring = {
            number: (group, cast("DeferringEvaluator", evaluator))
            for group, evaluator in enumerate(self._evaluators)
            for number in evaluator.deferred
        }
        self.conditions = bound
        on = self._switches
        self.program = Program(bound, self.numbers, on.witnesses, on.measured)
        rules = (bound, self.numbers) if on.deferred else self._deferred_as_rules()
        self._deferred = DeferredPredicates(*rules, self._deferring, on.witnesses, on.measured) if self._deferring else None
        fields: list[TextField] = [evaluator for evaluator in self._evaluators if isinstance(evaluator, TextField)]
        self._lazy = DeferredLiterals(bound, self.numbers, self._deferring, fields) if on.lazy and on.witnesses else None
        self._bits = Bits.empty(len(self.predicates), 0)

    def _number_predicates(self, bound: Sequence[Condition]) -> list[dict[Predicate, int]]:
        """The numbers of each condition's predicates: equal ones have one number, unless that is switched off."""
        if self._switches.shared:
            shared: dict[Predicate, int] = {}
            for condition in bound:
                for leaf in leaves(condition):
                    shared.setdefault(leaf.predicate, len(shared))
            return [shared] * len(bound)
        count, each = 0, []
        for condition in bound:
            own = dict.fromkeys(leaf.predicate for leaf in leaves(condition))
            each.append({predicate: count + n for n, predicate in enumerate(own)})
            count += len(own)
        return each

    def _group_predicates(self, schema: Schema) -> dict[tuple[EvaluatorFactory, str], list[tuple[int, Predicate]]]:
        """The predicates that one evaluator evaluates together."""
        groups: dict[tuple[EvaluatorFactory, str], list[tuple[int, Predicate]]] = defaultdict(list)
        for number, predicate in enumerate(self.predicates):
            groups[predicate.group(number, schema)].append((number, predicate))
        return groups

    def _deferred_as_rules(self) -> tuple[list[Condition], list[dict[Predicate, int]]]:
        """Each deferred predicate as a rule, so that it is evaluated wherever it may hold."""
        alone = [(self.predicates[number], number) for number in self._deferring]
        return [Leaf(predicate) for predicate, _ in alone], [{predicate: number} for predicate, number in alone]

    # ── Running ───────────────────────────────────────────────────────────────────────────────────

    def _run(self, batch: pa.RecordBatch) -> Matches:
        columns = {name: Column(batch.column(name)) for name, _ in self._types}
        self._bits = bits = self._bits.clear(batch.num_rows)
        self._costs.start()
        for group, evaluator in enumerate(self._evaluators):
            evaluator.evaluate(batch, columns, bits)
            self._costs.lap(group)
        if self._lazy is not None:
            self._lazy.evaluate(columns, bits)
        self._evaluate_deferred(columns, bits)
        found = self.program.run(bits)
        if self._lazy is not None:
            self._lazy.choose((self._deferred or self.program).share, self.program.rows)
        self._costs.lap(-1)
        return found

    @property
    def left_out(self) -> int:
        """The number of literals that are searched for only where a rule may match."""
        return self._lazy.left_out if self._lazy is not None else 0

    def costs(self) -> Any:
        """Seconds that each rule took since the last call (float64[n])."""
        return self._costs.take(self.conditions, self.numbers)

    def _evaluate_deferred(self, columns: Mapping[str, Column], bits: Bits) -> None:
        """Evaluate deferred predicates in the rows where a rule that needs them may match."""
        if self._deferred is None:
            return
        to_evaluate = self._deferred.rows_to_evaluate(bits)
        self._costs.lap(-1)
        for number, rows in to_evaluate:
            group, evaluator = self._deferring[number]
            evaluator.evaluate_rows(number, rows, columns, bits)
            self._costs.lap(group)


def _bind(condition: Condition, schema: Schema) -> Condition:
    """The bound condition; false if it cannot be evaluated on the types of the batch."""
    try:
        return bind(condition, schema)
    except BindError as error:
        log.warning("a rule cannot be evaluated on these events, and matches none: %s", error)
        return FALSE


def with_plain_texts(schema: Schema) -> Schema:
    """The schema with string for every type of text: conditions do not depend on how texts are stored."""
    return pa.schema([(field.name, pa.string() if field.type in TEXT_TYPES else field.type) for field in schema])


def _distinct(numbers: Sequence[dict[Predicate, int]]) -> list[dict[Predicate, int]]:
    return list({id(one): one for one in numbers}.values())


def _concatenate(parts: Sequence[Matches]) -> Matches:
    offsets, before = [parts[0].offsets], int(parts[0].offsets[-1])
    for part in parts[1:]:
        offsets.append(part.offsets[1:] + before)
        before += int(part.offsets[-1])
    rule, tried = np.concatenate([part.rule for part in parts]), np.sum([part.tried for part in parts], axis=0)
    return Matches(np.concatenate(offsets), rule, tried)


def bind(condition: Condition, schema: Schema) -> Condition:
    """The condition over existing fields; a predicate on a missing field is false. Raises BindError."""

    def replace(leaf: Leaf) -> Condition:
        predicate = leaf.predicate
        if ANY_FIELD in predicate.field_names:
            return any_of(predicate.renamed({ANY_FIELD: name}).bind(schema) for name in text_fields(schema))
        return predicate.bind(schema)

    return replace_leaves(condition, replace)


def text_fields(schema: Schema) -> list[str]:
    """The fields in which keywords are searched for: texts, and lists of texts."""
    return [field.name for field in schema if field.name not in HIDDEN and _holds_texts(field.type)]


def _holds_texts(type_: pa.DataType) -> bool:
    return type_ in TEXT_TYPES or (is_list_type(type_) and type_.value_type in TEXT_TYPES)
