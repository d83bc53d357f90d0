"""What an expression says about itself in front of a schema, and its Arrow form as a function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa

from etl.api import Finding, PlanError, Schema, format_type
from etl.expressions.bound import Bound, EvaluateRows
from etl.expressions.repeats import RepeatedColumns, pays, spread
from etl.expressions.rows import Evaluated, Rows
from etl.expressions.tree import DEEP_HINT, TOO_DEEP, BadExpressionError, parse, start


class Evaluate(Protocol):
    """An expression's Arrow form."""

    def __call__(self, batch: pa.RecordBatch, repeats: RepeatedColumns | None = None) -> Evaluated:
        """Its values over a batch; ``repeats`` are the columns of the same batch, for several expressions over it."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """An expression in front of a schema."""

    type: pa.DataType
    """``null`` when it cannot be known before the run."""

    findings: tuple[Finding, ...]
    """In the order of the text; ``at`` is the character."""

    fields: frozenset[str]
    """The fields it reads."""

    spark_reason: str | None
    """None when it has an Arrow form with Spark's exact meaning, else what has none."""

    spark_sql: str
    """The expression for Spark, with every field flat and in backticks."""

    start: int = 0
    """The character at which it begins."""

    @property
    def errors(self) -> bool:
        """Whether a finding is an error."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def is_null(self) -> bool:
        """Whether it is null of every event, and that is known."""
        return pa.types.is_null(self.type) and self.spark_reason is None and not self.fields

    def findings_at(self, *path: str | int) -> list[Finding]:
        """The findings of an expression that stands at this path of its component."""
        return [replace(finding, path=path) for finding in self.findings]

    def condition_findings_at(self, *path: str | int) -> list[Finding]:
        """The same of an expression that has to be true or false."""
        found = self.findings_at(*path)
        if self.is_null and not self.errors:
            return [*found, Finding("not-boolean", "the condition is null, whatever the event", path, at=self.start)]
        if self.errors or self.type in (pa.bool_(), pa.null()):
            return found
        hint = "'||' joins texts; between conditions write or" if self.type == pa.string() and "||" in self.spark_sql else None
        message = f"a condition is needed, and this is {format_type(self.type)}"
        return [*found, Finding("not-boolean", message, path, hint, at=self.start)]


def analyse(text: str, schema: Schema) -> Analysis:
    """Total: a text that is no expression is a finding."""
    return _bound(text, schema)[0]


def analyse_node(node: Any, schema: Schema) -> Analysis:
    """The same of a part of a query's tree (see `parse_statements`); places are those of the whole query."""
    return replace(_analysed(node, schema, "")[0], start=start(node))


def compile_expression(text: str, schema: Schema) -> Evaluate:
    """The Arrow form, prepared once. Raises PlanError for an expression that has errors or none.

    Rows that Spark would raise an error for are marked in the result, and the other rows are as good as ever. A field
    whose type the schema leaves open is looked at in each batch.
    """
    analysis, bound = _bound(text, schema)
    if bound.run is None or analysis.errors:
        problems = [finding.message for finding in analysis.findings] or [analysis.spark_reason or ""]
        raise PlanError(f"expression {text!r} cannot run on Arrow: {'; '.join(problems)}")
    fields = sorted(analysis.fields)
    expected = {name: schema.field(name).type for name in fields}
    run, dear = bound.run, pays(text, fields)

    def evaluate(batch: pa.RecordBatch, repeats: RepeatedColumns | None = None) -> Evaluated:
        columns = {name: batch.column(name) for name in fields}
        given = {name: column.type for name, column in columns.items()}
        if given != expected:
            return compile_expression(text, pa.schema(list(given.items())))(batch, repeats)
        combined = repeats.combined(fields) if repeats is not None and dear else None
        if combined is not None:
            combinations, count, numbers = combined
            return spread(_evaluated(run, dict(combinations), count, bound.type), numbers)
        return _evaluated(run, columns, batch.num_rows, bound.type)

    return evaluate


def _bound(text: str, schema: Schema) -> tuple[Analysis, Bound]:
    return _bound_before(text, _known(_Same(schema)))


@lru_cache(maxsize=1024)
def _bound_before(text: str, known: _Known) -> tuple[Analysis, Bound]:
    try:
        tree = parse(text)
    except BadExpressionError as error:
        return _broken(text, error.finding())
    return _analysed(tree, known.schema, text)


class _Same:
    """A schema that is known again only as the same object: a schema of thousands of fields is compared and hashed once."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.schema is self.schema


class _Known:
    """A schema with its hash."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._hash = hash(schema)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and (other is self or bool(other.schema.equals(self.schema)))


@lru_cache(maxsize=64)
def _known(same: _Same) -> _Known:
    return _Known(same.schema)


def _analysed(tree: Any, schema: Schema, text: str) -> tuple[Analysis, Bound]:
    from etl.expressions.binder import Binder, EnoughError  # the functions and their tables: only where there is an expression

    binder = Binder(schema)
    try:
        bound = binder.bind(tree)
    except EnoughError:
        bound = Bound(pa.null(), reason="it has too many mistakes")
    except RecursionError:
        return _broken(text, Finding("bad-expression", TOO_DEEP, hint=DEEP_HINT, at=0))
    findings = tuple(sorted(dict.fromkeys(binder.findings), key=lambda finding: finding.at or 0))
    return Analysis(bound.type, findings, frozenset(binder.fields), bound.reason, _edited(text, binder.edits)), bound


def _broken(text: str, finding: Finding) -> tuple[Analysis, Bound]:
    return Analysis(pa.null(), (finding,), frozenset(), finding.message, text), Bound(pa.null(), reason=finding.message)


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    parts, end = [], 0
    for first, last, name in sorted(set(edits)) if text else ():
        parts += [text[end:first], name]
        end = last + 1
    return "".join([*parts, text[end:]])


def _evaluated(run: EvaluateRows, columns: dict[str, pa.Array], length: int, type_: pa.DataType) -> Evaluated:
    rows = Rows(columns, length)
    try:
        return rows.outcome(run(rows))
    except pa.ArrowException as error:
        if length <= 1:
            return _failed(length, type_, str(error))
    return _by_halves(run, columns, length, type_)


def _by_halves(run: EvaluateRows, columns: dict[str, pa.Array], length: int, type_: pa.DataType) -> Evaluated:
    """A kernel gave up on a value that none of ours foresaw: find its row, and let the others go on."""
    middle = length // 2
    parts = [
        _evaluated(run, {name: column[first:last] for name, column in columns.items()}, last - first, type_)
        for first, last in ((0, middle), (middle, length))
    ]
    failed = pa.concat_arrays([part.failed or pa.repeat(pa.scalar(False), len(part.values)) for part in parts])
    reasons = pa.concat_arrays([part.reasons or pa.nulls(len(part.values), pa.string()) for part in parts])
    return Evaluated(pa.concat_arrays([part.values for part in parts]), failed if failed.true_count else None, reasons)


def _failed(length: int, type_: pa.DataType, message: str) -> Evaluated:
    lost = pa.nulls(length, type_)
    return Evaluated(lost, pa.repeat(pa.scalar(True), length), pa.repeat(pa.scalar(message), length))
