"""The aggregates of a window: ``count(distinct user_name) filter (where port > 0)`` → type, findings and Spark SQL.

An aggregate is one call of a function in `FUNCTIONS`; its arguments are expressions over the event's fields. The call is split
into arguments by its tokens, these are analysed as expressions, and the function gives the Spark SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from etl.aggregates.calls import AggregateCall, TextPart, read_call
from etl.aggregates.signatures import COUNTS_AND_SUMS, FUNCTIONS, AggregateFunction
from etl.api import Finding, Schema, format_type, nearest, visible
from etl.expressions import analyse, is_condition
from etl.expressions.calls.user_calls import is_taken
from etl.udf.annotations import describe
from etl.udf.declaration import UserFunction, functions_of, versions_of

_ORDER = "\0order\0"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate checked against a schema. ``template`` is its Spark SQL without the order of events, which `sql` fills in."""

    type: pa.DataType
    findings: tuple[Finding, ...] = ()
    fields: frozenset[str] = frozenset()
    template: str = ""
    """Empty where only the state lane computes it."""
    merge: str | None = None

    def sql(self, order: str) -> str:
        """Spark SQL over flat columns; ``order`` is the SQL of what orders events in time."""
        return self.template.replace(_ORDER, order)


def check_aggregate(text: str, schema: Schema, functions: Mapping[str, AggregateFunction] = FUNCTIONS) -> Aggregate:
    """Analyse one aggregate. The ``at`` of findings counts from the beginning of ``text``; with errors the SQL cannot run."""
    call = read_call(text)
    if isinstance(call, Finding):
        return Aggregate(pa.null(), (call,))
    own = user_aggregate(text, call)
    if own is not None:
        return _check_own(call, own, schema, is_window=functions is FUNCTIONS)
    function = functions.get(call.function)
    if function is not None and call.per_second:
        return _check_rate(call, function, schema)
    if function is None:
        return Aggregate(pa.null(), (_unknown_function(call.function, functions),))
    return _check_call(call, function, schema)


def user_aggregate(text: str, call: AggregateCall) -> UserFunction | None:
    """The aggregate of the user that a text calls, if it calls one."""
    own = {function.name.lower(): function for function in functions_of(text)}.get(call.function)
    return own if own is not None and (own.form == "aggregate" or own.is_broken) else None


def _check_own(call: AggregateCall, function: UserFunction, schema: Schema, *, is_window: bool) -> Aggregate:
    """A call of an aggregate of the user."""
    if function.is_broken:
        return Aggregate(pa.null(), fields=frozenset(visible(schema).names))
    if not is_window or call.per_second:
        message = f"{function.name}() is for windows, and not for {'per_second' if call.per_second else 'running values'}"
        return Aggregate(pa.null(), (Finding("bad-aggregate", message, at=0),))
    return _check_own_arguments(call, function, schema)


def _check_own_arguments(call: AggregateCall, function: UserFunction, schema: Schema) -> Aggregate:
    """Its arguments are the values that `add` takes beside the state."""
    needed, form = sum(one.required for one in function.parameters), f"{function.name}({_parameters(function)})"
    starred = any(part.text == "*" for part in call.arguments)
    if starred or not needed <= len(call.arguments) <= len(function.parameters):
        given = ", ".join(part.text for part in call.arguments)
        return Aggregate(
            pa.null(), (Finding("bad-aggregate", f"{call.function} is written {form}, and its arguments are ({given})", at=0),)
        )
    where = _Argument.of(call.where, schema) if call.where else _Argument.any_row()
    values = [_Argument.of(part, schema) for part in call.arguments]
    findings = [finding for one in (*values, where) for finding in one.findings]
    for one, part, parameter in zip(values, call.arguments, function.parameters, strict=False):
        if one.is_null and not one.failed and not parameter.takes_null:
            findings.append(Finding("bad-aggregate", f"{part.text} is null, whatever the event", at=part.at))
        elif not one.failed and not one.is_null and parameter.type is not None and not is_taken(one.type, parameter.type):
            as_parameter = f" as {parameter.name}" if len(function.parameters) > 1 else ""
            message = f"{form} takes {describe(parameter.type)}{as_parameter}, and this is {format_type(one.type)}"
            findings.append(Finding("wrong-type", message, at=part.at))
    findings += _filter_findings(call, where)
    fields = frozenset[str]().union(*(one.fields for one in (*values, where)))
    wrong = any(one.severity == "error" for one in findings)
    return Aggregate(pa.null() if wrong else function.result, tuple(findings), fields)


def _parameters(function: UserFunction) -> str:
    """``x`` of one value, else the names of all."""
    return "x" if len(function.parameters) == 1 else ", ".join(one.name for one in function.parameters)


def _check_rate(call: AggregateCall, function: AggregateFunction, schema: Schema) -> Aggregate:
    if call.function not in COUNTS_AND_SUMS:
        hint = f"it takes {', '.join(FUNCTIONS[name].form for name in COUNTS_AND_SUMS)}"
        return Aggregate(pa.null(), (Finding("bad-aggregate", f"per_second takes no {function.form}", hint=hint, at=0),))
    found = _check_call(call, function, schema)
    return Aggregate(found.type if pa.types.is_null(found.type) else pa.float64(), found.findings, found.fields)


def with_types(text: str, fields: Iterable[str], schema: Schema) -> str:
    """An aggregate with the types of its fields and the versions of the user's functions, on which its state depends."""
    types = [f"{name} {format_type(schema.field(name).type)}" for name in sorted(fields) if name in schema.names]
    typed = f"{text} of {', '.join(types)}" if types else str(text)
    versions = versions_of(text)
    return f"{typed} with the code {versions}" if versions else typed


def _check_call(call: AggregateCall, function: AggregateFunction, schema: Schema) -> Aggregate:
    wrong = _check_arguments(call, function)
    if wrong:
        return Aggregate(pa.null(), (wrong,))
    argument, *others = call.arguments
    value = _Argument.any_row() if argument.text == "*" else _Argument.of(argument, schema)
    second = _Argument.of(others[0], schema) if function.second else None
    where = _Argument.of(call.where, schema) if call.where else _Argument.any_row()
    given = [value, where] if second is None else [value, second, where]
    findings = [finding for one in given for finding in one.findings]
    result = function.result(value.type)
    if value.is_null and not value.failed:
        findings.append(Finding("bad-aggregate", f"{argument.text} is null, whatever the event", at=argument.at))
    elif result is None and not value.failed:
        findings.append(_wrong_type(function, function.takes, value.type, argument.at))
    if function.second and second and not second.failed and function.second.accepts(second.type) is None:
        findings.append(_wrong_type(function, f"as y {function.second.takes}", second.type, others[0].at))
    findings += _filter_findings(call, where)
    parameter = others[0] if function.parameter and others else TextPart(function.default or "", 0)
    complaint = function.parameter(parameter.text) if function.parameter else None
    if complaint:
        findings.append(Finding("bad-aggregate", f"{function.form}: {complaint}", at=parameter.at))
    template = _template(function, (value.sql, second.sql if second else ""), parameter.text, where.sql if call.where else None)
    fields = frozenset[str]().union(*(one.fields for one in given))
    return Aggregate(pa.null() if result is None else result, tuple(findings), fields, template, function.merge)


def _filter_findings(call: AggregateCall, where: _Argument) -> list[Finding]:
    if not call.where or where.failed or not (where.is_null or not is_condition(where.type)):
        return []
    return [Finding("wrong-type", f"a filter is a condition, and this is {format_type(where.type)}", at=call.where.at)]


def _wrong_type(function: AggregateFunction, takes: str, type_: pa.DataType, at: int) -> Finding:
    return Finding("wrong-type", f"{function.form} takes {takes}, and this is {format_type(type_)}", at=at)


def _template(function: AggregateFunction, values: tuple[str, str], parameter: str, where: str | None) -> str:
    if function.sql is None:
        return ""

    def clause(*conditions: str | None) -> str:
        given = " and ".join(f"({c})" for c in conditions if c)
        return f" filter (where {given})" if given else ""

    x, y = values
    clauses = {"where": clause(where), "given": clause(where, f"{x} is not null"), "paired": clause(where, f"{y} is not null")}
    return function.sql.format(x=x, y=y, n=parameter, order=_ORDER, **clauses)


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


def _unknown_function(function: str, functions: Mapping[str, AggregateFunction]) -> Finding:
    forms = ", ".join([*(one.form for one in functions.values()), "per_second(count(*))"])
    hint = nearest(function, functions) or f"aggregates are {forms}"
    return Finding("unknown-aggregate", f"there is no aggregate {function!r}", hint=hint, at=0)


def _check_arguments(call: AggregateCall, function: AggregateFunction) -> Finding | None:
    max_arguments = 2 if function.parameter or function.second else 1
    starred = any(part.text == "*" for part in call.arguments)
    enough = len(call.arguments) == max_arguments or (len(call.arguments) == 1 and function.default is not None)
    if enough and (not starred or call.function == "count"):
        return None
    given = ", ".join(part.text for part in call.arguments)
    return Finding("bad-aggregate", f"{call.function} is written {function.form}, and its arguments are ({given})", at=0)
