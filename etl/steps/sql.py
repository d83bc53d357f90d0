"""A SELECT over the events of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import Expression, Finding, Schema, Step, flat_schema, flatten, visible
from etl.expressions import analyse, quote_name
from etl.steps.field_selection import reserved_name
from etl.steps.filter import Filter
from etl.steps.select import Select
from etl.steps.selecting.generators import GeneratorCall
from etl.steps.selecting.make_rows import JsonTuple, MakeRows
from etl.steps.selecting.scope import Scope, unalias
from etl.steps.selecting.stars import check_star, find_star_columns
from etl.steps.selecting.statement import read_select, start_offset
from etl.steps.set import Set
from etl.steps.spark_values import StepExpression
from etl.udf.declaration import functions_of


class Sql(Step):
    """Run one SELECT of Spark SQL over the stream's events, each event by itself.

    The query is ``SELECT … FROM events [LATERAL VIEW …] [WHERE …]``: it may compute and select columns, filter events, and
    turn an event into several (``explode``, ``posexplode``, ``inline``, ``stack``, ``json_tuple``). Dotted fields are members of
    structs, as everywhere: ``source.ip``; a column's name in the result is its field, also with `` AS `source.ip` ``, and struct
    columns become dotted fields. Aggregates, joins, ``ORDER BY``, ``LIMIT`` and subqueries are refused; the step ``window``
    aggregates. The query cannot read other tables or files, or run other code. Stateless; the order of events is kept within a
    partition.

    An event for which a value or the condition cannot be computed (a cast that fails, a division by zero) goes to the dead
    letters with the code ``expression-failed``; ``try_cast``, ``try_divide`` and the like give null instead. If
    the events that are made of one batch would take more than 512 MiB, those with the most bytes are rejected with the code
    ``too-many-elements``. Of an event that
    becomes several, each row is rejected by itself, and ``etl dead replay`` does not replay it. The step runs on Arrow where its
    expressions do, as ``select``, ``filter`` and ``unnest``; ``etl explain`` names what needs Spark.

    ```yaml
    type: sql
    query: SELECT message, upper(split(message, ' ')[0]) AS verb FROM events WHERE message LIKE '% %'
    ```
    """

    type: Literal["sql"] = "sql"
    query: str = Field(
        description="One SELECT from events, in Spark SQL.", min_length=1, json_schema_extra={"format": "spark-sql-query"}
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """A query that is not one SELECT over events, unknown fields, columns without a name."""
        read = read_select(self.query)
        found = read if isinstance(read, list) else _check_query(Scope(read, visible(incoming)))
        yield from (replace(finding, path=("query",), hint=self._own_function_hint(finding) or finding.hint) for finding in found)

    def _own_function_hint(self, finding: Finding) -> str | None:
        """What to do about a call of a function of the user, which is none of Spark's."""
        own = [one.name for one in functions_of(self.query) if repr(one.name.lower()) in finding.message.lower()]
        if finding.code != "unknown-function" or not own:
            return None
        return f"functions of your own run on Arrow: compute {own[0]}() in a `set` step before"

    def fields(self, incoming: Schema) -> Schema:
        """The columns, flat; a type that only Spark knows is null."""
        read = read_select(self.query)
        if isinstance(read, list):
            return visible(incoming)
        scope = Scope(read, visible(incoming))
        columns = {name: type_ for node in read.written.expressions for name, type_ in _find_columns(node, scope)}
        return flat_schema(pa.schema(list(columns.items())))

    def parts(self, incoming: Schema) -> Sequence[Step]:
        """Lateral views, a filter, a generator of the SELECT list, and a `select`."""
        read = read_select(self.query)
        if isinstance(read, list):
            return ()
        scope = Scope(read, visible(incoming))
        where = [] if scope.condition is None else [_Where(where=scope.condition)]
        views = [step for view in scope.views for step in _rows_steps(view.call, view.fields)]
        before = where if where and not _reads_views(where[0], scope) else []
        columns, made = _column_texts(scope)
        return (*before, *views, *(where if not before else ()), *made, _Columns(fields=columns))


class _Where(Filter):
    """The condition of a query."""

    type: Literal["sql"] = "sql"  # type: ignore[assignment]

    def _expressions(self) -> list[StepExpression]:
        return [StepExpression(("query",), self.where)]


class _Arguments(Set):
    """Fields with the arguments of a generator, whose names no event's field has."""

    type: Literal["sql"] = "sql"  # type: ignore[assignment]
    values: Mapping[str, Expression] = Field(alias="fields", min_length=1)

    def _expressions(self) -> list[StepExpression]:
        return [StepExpression(("query",), text) for text in self.values.values()]


class _Columns(Select):
    """The columns of a query, which may have names that no option can name. Structs become fields."""

    type: Literal["sql"] = "sql"  # type: ignore[assignment]
    values: Mapping[str, Expression] = Field(alias="fields", min_length=1)

    def fields(self, incoming: Schema) -> Schema:
        found = super().fields(incoming)
        return flat_schema(found) if any(pa.types.is_struct(field.type) for field in found) else found

    def _expressions(self) -> list[StepExpression]:
        return [StepExpression(("query",), text) for text in self.values.values()]

    def _with_values(self, batch: pa.RecordBatch, values: Mapping[str, pa.Array], known: frozenset[str]) -> pa.RecordBatch:
        return flatten(super()._with_values(batch, values, known))


def _reads_views(where: _Where, scope: Scope) -> bool:
    """Whether a condition reads columns of lateral views."""
    return bool(analyse(where.where, scope.events).errors)


def _rows_steps(call: GeneratorCall, columns: Sequence[str]) -> list[Step]:
    """The steps that compute the arguments of a generator, and make its rows."""
    names = tuple(f"argument {number}" for number in range(len(call.arguments)))
    arguments = _Arguments(fields=dict(zip(names, call.arguments, strict=True)))
    if call.generator.function == "json_tuple":
        return [arguments, JsonTuple(type="sql", arguments=names, columns=tuple(columns))]
    return [arguments, MakeRows(generator=call.generator, arguments=names, columns=tuple(columns))]


def _column_texts(scope: Scope) -> tuple[dict[str, str], list[Step]]:
    """The expression of each column, and the steps that make rows before."""
    found: dict[str, str] = {}
    made: list[Step] = []
    for node, value in scope.items:
        if value is None:
            found |= {name: column.text for name, column in find_star_columns(node, scope)}
        elif isinstance(value, GeneratorCall):
            fields = {name: f"made {name}" for name, _ in value.columns()}
            made += _rows_steps(value, list(fields.values()))
            found |= {name: quote_name(field) for name, field in fields.items()}
        elif members := scope.members(unalias(node)[0]):
            found |= {f"{node.output_name}{rest}": member.text for rest, member in members}
        else:
            found[node.output_name] = value
    return found, made


# ── Checks ────────────────────────────────────────────────────────────────────────────────────────


def _check_query(scope: Scope) -> Iterator[Finding]:
    calls = [(node, value) for node, value in scope.items if isinstance(value, GeneratorCall)]
    for node, value in scope.items:
        if value is None:
            yield from check_star(node, scope)
            continue
        if not unalias(node)[1] and not node.output_name:
            yield Finding(
                "unnamed-column", f"{node.sql(dialect='spark')!r} has no name", hint="add AS and a name", at=start_offset(node)
            )
        for name, _ in _find_columns(node, scope):
            yield from (replace(finding, at=start_offset(node)) for finding in reserved_name(name, ("query",)))
    for node, _ in calls[1:]:
        hint = "write LATERAL VIEW for one of them"
        yield Finding("bad-sql", "the list has two functions that make rows", hint=hint, at=start_offset(node))
    views = [view.call for view in scope.views]
    for call in (*views, *(call for _, call in calls)):
        argument_findings = [finding for node in call.nodes for finding in scope.analyse(node).findings]
        yield from argument_findings or call.findings()
    for node, value in scope.items:
        inner = unalias(node)[0]
        if isinstance(value, str) and not scope.members(inner):  # else a struct that is selected whole
            yield from scope.analyse(inner).findings
    where = scope.read.written.args.get("where")
    if where:
        yield from scope.analyse(where.this).condition_findings_at()
    yield from _check_duplicates(scope)


def _check_duplicates(scope: Scope) -> Iterator[Finding]:
    """Find columns with the name of an earlier one; Spark ignores case. A struct has the names of its members."""
    known_names: set[str] = set()
    nodes = scope.read.written.expressions
    for node in nodes:
        columns = dict(_find_columns(node, scope))
        names = flat_schema(pa.schema(list(columns.items()))).names
        twice = {name.split(".")[0]: name for name in reversed(names) if name and name.lower() in known_names}
        for name in names:
            if name in twice.values():  # one finding for all members of a struct
                has_star = any(node.is_star for node in nodes)
                hint = f"exclude it from the star: * except ({name.split('.')[0]})" if has_star else "give one another name"
                yield Finding("duplicate-column", f"the result has two columns {name!r}", hint=hint, at=start_offset(node))
        known_names |= {name.lower() for name in names}


def _find_columns(node: Any, scope: Scope) -> Iterator[tuple[str, pa.DataType]]:
    """Names and types that one item of the SELECT list gives."""
    value = next(value for item, value in scope.items if item is node)
    inner = unalias(node)[0]
    if value is None:
        yield from ((name, column.type) for name, column in find_star_columns(node, scope))
    elif isinstance(value, GeneratorCall):
        yield from value.columns()
    elif members := scope.members(inner):
        yield from ((f"{node.output_name}{rest}", member.type) for rest, member in members)
    else:
        yield node.output_name, scope.analyse(inner).type
