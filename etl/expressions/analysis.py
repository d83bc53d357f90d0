"""Analyses an expression against a schema, and compiles its Arrow form to a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa

from etl.api import Finding, PlanError, Schema, format_type
from etl.expressions.bound_node import BoundNode, EvaluateRows
from etl.expressions.dictionary_columns import DictionaryColumns, expand, is_worth_encoding
from etl.expressions.random_values import RandomSource, random_source_of
from etl.expressions.rows import ActiveRows, Evaluation
from etl.expressions.tree import DEEP_HINT, TOO_DEEP, BadExpressionError, parse, start
from etl.udf.declaration import UserFunction, functions_of


class CompiledExpression(Protocol):
    """The Arrow form of an expression."""

    def __call__(self, batch: pa.RecordBatch, repeats: DictionaryColumns | None = None) -> Evaluation:
        """Evaluate it over a batch; ``repeats``: the dictionary columns of the batch, shared by several expressions."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of analysing an expression against a schema."""

    type: pa.DataType
    """``null`` if it is unknown before the run."""

    findings: tuple[Finding, ...]
    """In the order of the text; ``at`` is the character."""

    fields: frozenset[str]
    """The fields it reads."""

    spark_reason: str | None
    """None if the expression has an Arrow form, which gives exactly Spark's results; otherwise the part that has none."""

    spark_sql: str
    """The expression for Spark, where each field is a flat column: its dotted name in backticks."""

    start: int = 0
    """The character at which it begins."""

    arrow_only: frozenset[str] = frozenset()
    """The functions it calls that Spark does not have."""

    is_volatile: bool = False
    """Whether equal events may have different values: it calls a random function or one of the clock."""

    @property
    def errors(self) -> bool:
        """Whether a finding is an error."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def is_condition(self) -> bool:
        """Whether its type is that of a condition."""
        return is_condition(self.type)

    @property
    def is_null(self) -> bool:
        """Whether it is known to be null for every event."""
        return pa.types.is_null(self.type) and self.spark_reason is None and not self.fields

    def findings_at(self, *path: str | int) -> list[Finding]:
        """The findings, for an expression at this path of its component."""
        return [replace(finding, path=path) for finding in self.findings]

    def condition_findings_at(self, *path: str | int) -> list[Finding]:
        """The findings, for an expression that must be boolean."""
        found = self.findings_at(*path)
        if self.is_null and not self.errors:
            return [*found, Finding("not-boolean", "the condition is null, whatever the event", path, at=self.start)]
        if self.errors or self.is_condition:
            return found
        hint = "'||' joins texts; between conditions write or" if self.type == pa.string() and "||" in self.spark_sql else None
        message = f"a condition is needed, and this is {format_type(self.type)}"
        return [*found, Finding("not-boolean", message, path, hint, at=self.start)]


def is_condition(type_: pa.DataType) -> bool:
    """Whether a type is that of a condition: boolean, or not known before the run."""
    return bool(pa.types.is_boolean(type_) or pa.types.is_null(type_))


def analyse(text: str, schema: Schema) -> Analysis:
    """Analyse an expression. Never raises: an invalid text is a finding."""
    return _bind(text, schema)[0]


def analyse_node(node: Any, schema: Schema) -> Analysis:
    """Analyse a part of a query's tree (see `parse_statements`); positions are those in the whole query."""
    return replace(bind_tree(node, schema, "")[0], start=start(node))


def compile_expression(text: str, schema: Schema) -> CompiledExpression:
    """Compile an expression's Arrow form. Raises PlanError if it has errors or no Arrow form.

    Rows for which Spark would raise an error are marked as failed in the result; other rows are not affected. If the schema
    leaves the type of a field open, the expression is compiled for the type in each batch.
    """
    analysis, bound = _bind(text, schema)
    if bound.run is None or analysis.errors:
        problems = [finding.message for finding in analysis.findings] or [analysis.spark_reason or ""]
        raise PlanError(f"expression {text!r} cannot run on Arrow: {'; '.join(problems)}")
    fields = sorted(analysis.fields)
    expected = {name: schema.field(name).type for name in fields}
    run, is_volatile = bound.run, analysis.is_volatile
    costly = not is_volatile and is_worth_encoding(text, fields)

    def evaluate(batch: pa.RecordBatch, repeats: DictionaryColumns | None = None) -> Evaluation:
        columns = {name: batch.column(name) for name in fields}
        given = {name: column.type for name, column in columns.items()}
        if given != expected:
            return compile_expression(text, pa.schema(list(given.items())))(batch, repeats)
        combined = repeats.combined(fields) if repeats is not None and costly else None
        if combined is not None:
            combinations, count, numbers = combined
            return expand(evaluate_bound(run, dict(combinations), count, bound.type), numbers)
        return evaluate_bound(run, columns, batch.num_rows, bound.type, random_source_of(batch) if is_volatile else None)

    return evaluate


def _bind(text: str, schema: Schema) -> tuple[Analysis, BoundNode]:
    return _bind_cached(text, _hashed_schema(_SchemaIdentity(schema)), functions_of(text))


@lru_cache(maxsize=1024)
def _bind_cached(text: str, known: _HashedSchema, functions: tuple[UserFunction, ...]) -> tuple[Analysis, BoundNode]:
    try:
        tree = parse(text)
    except BadExpressionError as error:
        return _make_broken(text, error.finding())
    return bind_tree(tree, known.schema, text, functions)


class _SchemaIdentity:
    """A schema compared by identity, so that a schema of thousands of fields is hashed once."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SchemaIdentity) and other.schema is self.schema


class _HashedSchema:
    """A schema with its hash."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._hash = hash(schema)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HashedSchema) and (other is self or bool(other.schema.equals(self.schema)))


@lru_cache(maxsize=64)
def _hashed_schema(same: _SchemaIdentity) -> _HashedSchema:
    return _HashedSchema(same.schema)


def bind_tree(tree: Any, schema: Schema, text: str, functions: tuple[UserFunction, ...] = ()) -> tuple[Analysis, BoundNode]:
    """Bind a syntax tree, or a part of one. ``text``: the expression's text, or empty if the form for Spark is not needed."""
    from etl.expressions.binder import (  # imported late: the tables of functions are large
        Binder,
        TooManyFindingsError,
    )

    binder = Binder(schema, functions)
    try:
        bound = binder.bind(tree)
    except TooManyFindingsError:
        bound = BoundNode(pa.null(), reason="it has too many mistakes")
    except RecursionError:
        return _make_broken(text, Finding("bad-expression", TOO_DEEP, hint=DEEP_HINT, at=0))
    is_reported = any(finding.severity == "error" for finding in binder.findings) or binder.calls_broken
    if bound.reason and not is_reported:
        binder.findings += _find_misplaced(binder.arrow_only, bound.reason)
    findings = tuple(sorted(dict.fromkeys(binder.findings), key=lambda finding: finding.at or 0))
    spark_sql = _apply_edits(text, binder.edits)
    only = frozenset(binder.arrow_only)
    analysis = Analysis(
        bound.type, findings, frozenset(binder.fields), bound.reason, spark_sql, arrow_only=only, is_volatile=binder.is_volatile
    )
    return analysis, bound


def _find_misplaced(calls: Mapping[str, Any], reason: str) -> Iterator[Finding]:
    """Calls of functions that Spark does not have, in an expression that only Spark can compute."""
    for name, node in calls.items():
        hint = "compute one of the two as a field of its own, in a step before"
        yield Finding(
            "arrow-only",
            f"{name}() runs on Arrow only, and another part of the expression in Spark only: {reason}",
            hint=hint,
            at=start(node),
        )


def _make_broken(text: str, finding: Finding) -> tuple[Analysis, BoundNode]:
    return Analysis(pa.null(), (finding,), frozenset(), finding.message, text), BoundNode(pa.null(), reason=finding.message)


def _apply_edits(text: str, edits: list[tuple[int, int, str]]) -> str:
    parts, end = [], 0
    for first, last, name in sorted(set(edits)) if text else ():
        parts += [text[end:first], name]
        end = last + 1
    return "".join([*parts, text[end:]])


def evaluate_bound(
    run: EvaluateRows, columns: dict[str, pa.Array], length: int, type_: pa.DataType, random: RandomSource | None = None
) -> Evaluation:
    """Evaluate a bound node over columns of this length, also where a kernel of Arrow raises an error for one row."""
    rows = ActiveRows(columns, length, random)
    try:
        return rows.finish(run(rows))
    except pa.ArrowException as error:
        if length <= 1:
            return _fail_all(length, type_, str(error))
    return _by_halves(run, columns, length, type_, random)


def _by_halves(
    run: EvaluateRows, columns: dict[str, pa.Array], length: int, type_: pa.DataType, random: RandomSource | None
) -> Evaluation:
    """Evaluate halves of the batch, to find the row with the value for which a kernel of Arrow raised an error."""
    middle = length // 2
    parts = [
        evaluate_bound(
            run,
            {name: column[first:last] for name, column in columns.items()},
            last - first,
            type_,
            random and random.rows(first, last),
        )
        for first, last in ((0, middle), (middle, length))
    ]
    failed = pa.concat_arrays([part.failed or pa.repeat(pa.scalar(False), len(part.values)) for part in parts])
    reasons = pa.concat_arrays([part.reasons or pa.nulls(len(part.values), pa.string()) for part in parts])
    return Evaluation(pa.concat_arrays([part.values for part in parts]), failed if failed.true_count else None, reasons)


def _fail_all(length: int, type_: pa.DataType, message: str) -> Evaluation:
    lost = pa.nulls(length, type_)
    return Evaluation(lost, pa.repeat(pa.scalar(True), length), pa.repeat(pa.scalar(message), length))
