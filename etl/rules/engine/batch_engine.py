"""All rules over a batch: predicates decided field by field, then every rule where its witness was found."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import Schema
from etl.rules.conditions.binding import bind
from etl.rules.conditions.column_types import TEXTS
from etl.rules.conditions.predicates import Network, Number, Pattern, Predicate, Present, SameField, Sql, Text, fields_of
from etl.rules.conditions.spark_sql import BindError
from etl.rules.conditions.tree import FALSE, Condition, Leaf, leaves
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.column_texts import Column
from etl.rules.engine.costs import Costs
from etl.rules.engine.deferred_predicates import Deferred
from etl.rules.engine.other_predicates import NumberDecider, PresentDecider, SameDecider
from etl.rules.engine.program import Matches, Program
from etl.rules.engine.sql_predicates import holding
from etl.rules.engine.text_field import TextField
from etl.rules.search.deferred_literals import LazyLiterals

log = logging.getLogger("sluice.rules")


@dataclass(frozen=True)
class Switches:
    """What benchmarks and tests turn off, one at a time; results are the same."""

    shared: bool = True
    """Equal predicates are decided once."""
    together: bool = True
    """Literals on one field share a scan."""
    distinct: bool = True
    """Each distinct text of a column is looked at once."""
    literals: bool = True
    """A regular expression is tried only where one of its literals is, and in no text that is shorter than its matches."""
    automata: bool = True
    """A regular expression that RE2 compiles slowly, for each batch anew, is an automaton that is kept."""
    witnesses: bool = True
    """A rule is evaluated only where its witness is."""
    measured: bool = True
    """Witnesses are chosen by what was seen, not by a guess."""
    deferred: bool = True
    """Regular expressions are tried, and two fields compared, only where a rule that asks for it may be true."""
    lazy: bool = True
    """Of texts that do not repeat only witnesses are looked for everywhere, and other literals where a rule may be true."""


_ROWS, _BITS = 1 << 16, 1 << 27
"""Most rows at once, and most rows times predicates: bounds the bit sets to 16 MiB."""


class Engine:
    """Conditions, compiled for the columns of a schema (and anew when a batch has others)."""

    def __init__(self, conditions: Sequence[Condition], schema: Schema, switches: Switches = Switches()) -> None:
        self._given, self._switches = conditions, switches
        self._fitting: Schema | None = None  # of the last batch
        self._compile(plain(schema))

    def run(self, batch: pa.RecordBatch) -> Matches:
        """Which conditions are true in which rows."""
        if batch.schema != self._fitting:
            schema = plain(batch.schema)
            if not self._types <= {(field.name, field.type) for field in schema}:
                self._compile(schema)
            self._fitting = batch.schema
        most = max(64, min(_ROWS, _BITS // max(len(self.predicates), 1)))
        parts = [self._run(batch.slice(first, most)) for first in range(0, max(batch.num_rows, 1), most)]
        return parts[0] if len(parts) == 1 else _joined(parts)

    # ── Compiling ─────────────────────────────────────────────────────────────────────────────────

    def _compile(self, schema: Schema) -> None:
        bound = [_bound(condition, schema) for condition in self._given]
        self.numbers = self._numbered(bound)
        self.predicates = [predicate for known in _distinct(self.numbers) for predicate in known]
        used = set().union(*(fields_of(one) for one in self.predicates)) if self.predicates else set()
        self._types = {(field.name, field.type) for field in schema if field.name in used}
        groups = self._groups(schema)
        self._tested: dict[int, tuple[int, TextField | SameDecider]] = {}
        self._fields: list[TextField] = []
        self._costs = Costs([[number for number, _ in members] for members in groups.values()])
        self._deciders = [
            self._decider(n, family, of, members, schema) for n, ((family, of), members) in enumerate(groups.items())
        ]
        self.conditions = bound
        on = self._switches
        self.program = Program(bound, self.numbers, on.witnesses, on.measured)
        rules = (bound, self.numbers) if on.deferred else self._tests_alone()
        self._deferred = Deferred(*rules, self._tested, on.witnesses, on.measured) if self._tested else None
        self._lazy = LazyLiterals(bound, self.numbers, self._tested, self._fields) if on.lazy and on.witnesses else None
        self._bits = Bits.empty(len(self.predicates), 0)

    def _numbered(self, bound: Sequence[Condition]) -> list[dict[Predicate, int]]:
        """Of each condition the numbers of its predicates: equal ones have one number, unless that is switched off."""
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

    def _groups(self, schema: Schema) -> dict[tuple[str, str], list[tuple[int, Any]]]:
        """Predicates that are decided together, by family and field."""
        groups: dict[tuple[str, str], list[tuple[int, Any]]] = defaultdict(list)
        for number, predicate in enumerate(self.predicates):
            groups[_family(predicate, number, schema)].append((number, predicate))
        return groups

    def _decider(
        self, group: int, family: str, of: str, members: list[tuple[int, Any]], schema: Schema
    ) -> Callable[[pa.RecordBatch, Mapping[str, Column], Bits], None]:
        if family == "same":
            same = SameDecider(*members[0])
            self._tested[same.number] = group, same
            return same.decide
        if family == "sql":
            (number, sql), *_ = members
            holds = holding(sql, schema)
            return lambda batch, columns, bits: bits.put(number, holds(batch))
        if family == "text":
            on = self._switches
            field = TextField(of, members, self._costs.alone, on.distinct, on.together, on.literals, on.automata)
            self._fields.append(field)
            self._tested |= dict.fromkeys(field.tests.tests, (group, field))
            return field.decide
        made = (NumberDecider if family == "number" else PresentDecider)(members)
        return lambda batch, columns, bits: made.decide(columns[of], bits)

    def _tests_alone(self) -> tuple[list[Condition], list[dict[Predicate, int]]]:
        """Each deferred predicate as a rule."""
        alone = [(self.predicates[number], number) for number in self._tested]
        return [Leaf(predicate) for predicate, _ in alone], [{predicate: number} for predicate, number in alone]

    # ── Running ───────────────────────────────────────────────────────────────────────────────────

    def _run(self, batch: pa.RecordBatch) -> Matches:
        columns = {name: Column(batch.column(name)) for name, _ in self._types}
        self._bits = bits = self._bits.cleared(batch.num_rows)
        self._costs.begin()
        for group, decide in enumerate(self._deciders):
            decide(batch, columns, bits)
            self._costs.lap(group)
        if self._lazy is not None:
            self._lazy.settle(columns, bits)
        self._settle(columns, bits)
        found = self.program.run(bits)
        if self._lazy is not None:
            self._lazy.choose((self._deferred or self.program).share, self.program.rows)
        self._costs.lap(-1)
        return found

    @property
    def left_out(self) -> int:
        """How many literals are looked for only where a rule may be true."""
        return self._lazy.left_out if self._lazy is not None else 0

    def costs(self) -> Any:
        """Seconds that each rule took since this was last asked (float64[n])."""
        return self._costs.taken(self.conditions, self.numbers)

    def _settle(self, columns: Mapping[str, Column], bits: Bits) -> None:
        """Decide what has to look at whole texts, where it matters."""
        if self._deferred is None:
            return
        wanted = self._deferred.wanted(bits)
        self._costs.lap(-1)
        for number, rows in wanted:
            group, field = self._tested[number]
            field.settle(number, rows, columns, bits)
            self._costs.lap(group)


def _bound(condition: Condition, schema: Schema) -> Condition:
    """The condition, or false where the types that came make it impossible to decide."""
    try:
        return bind(condition, schema)
    except BindError as error:
        log.warning("a rule cannot be decided in front of these events, and matches none: %s", error)
        return FALSE


def plain(schema: Schema) -> Schema:
    """The schema with all texts as strings: how they travel decides nothing."""
    return pa.schema([(field.name, pa.string() if field.type in TEXTS else field.type) for field in schema])


def _distinct(numbers: Sequence[dict[Predicate, int]]) -> list[dict[Predicate, int]]:
    return list({id(known): known for known in numbers}.values())


def _family(predicate: Predicate, number: int, schema: Schema) -> tuple[str, str]:
    """Which decider takes it, and of which field (or, where each has its own, its number)."""
    if isinstance(predicate, SameField):
        return "same", str(number)
    if isinstance(predicate, Sql):
        (name, *others) = predicate.fields or ("",)
        alone = name and not others and schema.field(name).type in TEXTS and not _true_of_null(predicate, name)
        return ("text", name) if alone else ("sql", str(number))
    families = {Text: "text", Pattern: "text", Number: "number", Network: "text", Present: "present"}
    return families[type(predicate)], predicate.field


def _true_of_null(predicate: Sql, name: str) -> bool:
    """Whether it holds where its only field is null: such rows have no text to look at."""
    nothing = pa.RecordBatch.from_arrays([pa.nulls(1, pa.string())], names=[name])
    return bool(holding(predicate, nothing.schema)(nothing)[0].as_py())


def _joined(parts: Sequence[Matches]) -> Matches:
    offsets, before = [parts[0].offsets], int(parts[0].offsets[-1])
    for part in parts[1:]:
        offsets.append(part.offsets[1:] + before)
        before += int(part.offsets[-1])
    rule, tried = np.concatenate([part.rule for part in parts]), np.sum([part.tried for part in parts], axis=0)
    return Matches(np.concatenate(offsets), rule, tried)
