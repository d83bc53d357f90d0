"""The aggregates of a window: ``count(distinct user_name) filter (where port > 0)`` → type, findings and Spark SQL.

An aggregate is one call of a function in `FUNCTIONS`; its arguments are expressions over the event's fields. The call is split
into arguments by its tokens, these are analysed as expressions, and the function gives the Spark SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from etl.api import Finding, Schema, format_type, nearest
from etl.expressions import analyse, is_condition
from etl.steps.aggregate_calls import Call, TextPart, read_call
from etl.steps.aggregate_functions import FUNCTIONS, AggregateFunction

_ORDER = "\0order\0"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate checked against a schema. ``template`` is its Spark SQL without the order of events, which `sql` fills in."""

    type: pa.DataType
    findings: tuple[Finding, ...] = ()
    fields: frozenset[str] = frozenset()
    template: str = ""
    merge: str | None = None

    def sql(self, order: str) -> str:
        """Spark SQL over flat columns; ``order`` is the SQL of what orders events in time."""
        return self.template.replace(_ORDER, order)


def check_aggregate(text: str, schema: Schema) -> Aggregate:
    """Analyse one aggregate. The ``at`` of findings counts from the beginning of ``text``; with errors the SQL cannot run."""
    call = read_call(text)
    if isinstance(call, Finding):
        return Aggregate(pa.null(), (call,))
    function = FUNCTIONS.get(call.function)
    if function is None:
        return Aggregate(pa.null(), (_unknown_function(call.function),))
    wrong = _check_arguments(call, function)
    if wrong:
        return Aggregate(pa.null(), (wrong,))
    return _check_call(call, function, schema)


def _check_call(call: Call, function: AggregateFunction, schema: Schema) -> Aggregate:
    argument, *parameters = call.arguments
    value = _Argument.any_row() if argument.text == "*" else _Argument.of(argument, schema)
    where = _Argument.of(call.where, schema) if call.where else _Argument.any_row()
    findings = [*value.findings, *where.findings]
    result = function.result(value.type)
    if result is None and not value.failed:
        findings.append(
            Finding(
                "wrong-type", f"{function.form} takes {function.takes}, and this is {format_type(value.type)}", at=argument.at
            )
        )
    if call.where and not where.failed and (where.is_null or not is_condition(where.type)):
        findings.append(
            Finding("wrong-type", f"a filter is a condition, and this is {format_type(where.type)}", at=call.where.at)
        )
    parameter = parameters[0] if parameters else TextPart("", 0)
    complaint = function.parameter(parameter.text) if function.parameter else None
    if complaint:
        findings.append(Finding("bad-aggregate", f"{function.form}: {complaint}", at=parameter.at))
    template = _template(function, value.sql, parameter.text, where.sql if call.where else None)
    return Aggregate(
        pa.null() if result is None else result, tuple(findings), value.fields | where.fields, template, function.merge
    )


def _template(function: AggregateFunction, value: str, parameter: str, where: str | None) -> str:
    def clause(*conditions: str | None) -> str:
        given = " and ".join(f"({c})" for c in conditions if c)
        return f" filter (where {given})" if given else ""

    present = f"{value} is not null"
    return function.sql.format(x=value, n=parameter, where=clause(where), given=clause(where, present), order=_ORDER)


class _Argument(NamedTuple):
    """An argument or a filter, analysed."""

    type: pa.DataType
    sql: str
    fields: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()
    is_null: bool = False

    @property
    def failed(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    @classmethod
    def any_row(cls) -> _Argument:
        return cls(pa.null(), "*")

    @classmethod
    def of(cls, part: TextPart, schema: Schema) -> _Argument:
        found = analyse(part.text, schema)
        moved = (replace(f, at=part.at + (f.at or 0)) for f in found.findings)
        return cls(found.type, f"({found.spark_sql})", frozenset(found.fields), tuple(moved), found.is_null)


def _unknown_function(function: str) -> Finding:
    forms = ", ".join(one.form for one in FUNCTIONS.values())
    hint = nearest(function, FUNCTIONS) or f"aggregates are {forms}"
    return Finding("unknown-aggregate", f"there is no aggregate {function!r}", hint=hint, at=0)


def _check_arguments(call: Call, function: AggregateFunction) -> Finding | None:
    wanted = 2 if function.parameter else 1
    starred = any(part.text == "*" for part in call.arguments)
    if len(call.arguments) == wanted and (not starred or call.function == "count"):
        return None
    given = ", ".join(part.text for part in call.arguments)
    return Finding("bad-aggregate", f"{call.function} is written {function.form}, and its arguments are ({given})", at=0)
