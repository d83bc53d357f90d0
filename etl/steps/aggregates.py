"""The aggregates of a window: ``count(distinct user_name) filter (where port > 0)`` → type, findings and Spark SQL.

An aggregate is one call of a function in `KINDS`; its arguments are expressions over the event's fields. The call
is cut into pieces by tokens, the pieces are analysed as expressions, and each kind says what Spark computes for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from etl.api import Finding, Schema, format_type, nearest
from etl.expressions import analyse
from etl.steps.aggregate_calls import Call, Piece, read_call
from etl.steps.aggregate_kinds import KINDS, Kind

_ORDER = "\0order\0"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate checked against a schema. ``template`` awaits the order of events, as `sql` gives it."""

    type: pa.DataType
    findings: tuple[Finding, ...] = ()
    fields: frozenset[str] = frozenset()
    template: str = ""
    merge: str | None = None

    def sql(self, order: str) -> str:
        """Spark SQL over flat columns; ``order`` is the SQL of what orders events in time."""
        return self.template.replace(_ORDER, order)


def check_aggregate(text: str, schema: Schema) -> Aggregate:
    """Analyse one aggregate. Findings carry ``at`` within ``text``; with errors among them there is no SQL to run."""
    call = read_call(text)
    if isinstance(call, Finding):
        return Aggregate(pa.null(), (call,))
    kind = KINDS.get(call.function)
    if kind is None:
        return Aggregate(pa.null(), (_unknown(call.function),))
    wrong = _arity(call, kind)
    if wrong:
        return Aggregate(pa.null(), (wrong,))
    return _checked(call, kind, schema)


def _checked(call: Call, kind: Kind, schema: Schema) -> Aggregate:
    argument, *parameters = call.arguments
    value = _Part.any_row() if argument.text == "*" else _Part.of(argument, schema)
    where = _Part.of(call.where, schema) if call.where else _Part.any_row()
    findings = [*value.findings, *where.findings]
    result = kind.result(value.type)
    if result is None and not value.failed:
        findings.append(
            Finding("wrong-type", f"{kind.form} takes {kind.takes}, and this is {format_type(value.type)}", at=argument.at)
        )
    if call.where and not where.failed and (where.is_null or where.type not in (pa.bool_(), pa.null())):
        findings.append(
            Finding("wrong-type", f"a filter is a condition, and this is {format_type(where.type)}", at=call.where.at)
        )
    parameter = parameters[0] if parameters else Piece("", 0)
    complaint = kind.parameter(parameter.text) if kind.parameter else None
    if complaint:
        findings.append(Finding("bad-aggregate", f"{kind.form}: {complaint}", at=parameter.at))
    template = _template(kind, value.sql, parameter.text, where.sql if call.where else None)
    return Aggregate(pa.null() if result is None else result, tuple(findings), value.fields | where.fields, template, kind.merge)


def _template(kind: Kind, value: str, parameter: str, where: str | None) -> str:
    def clause(*conditions: str | None) -> str:
        given = " and ".join(f"({c})" for c in conditions if c)
        return f" filter (where {given})" if given else ""

    present = f"{value} is not null"
    return kind.sql.format(x=value, n=parameter, where=clause(where), given=clause(where, present), order=_ORDER)


class _Part(NamedTuple):
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
    def any_row(cls) -> _Part:
        return cls(pa.null(), "*")

    @classmethod
    def of(cls, piece: Piece, schema: Schema) -> _Part:
        found = analyse(piece.text, schema)
        moved = (replace(f, at=piece.at + (f.at or 0)) for f in found.findings)
        return cls(found.type, f"({found.spark_sql})", frozenset(found.fields), tuple(moved), found.is_null)


def _unknown(function: str) -> Finding:
    forms = ", ".join(kind.form for kind in KINDS.values())
    hint = nearest(function, KINDS) or f"aggregates are {forms}"
    return Finding("unknown-aggregate", f"there is no aggregate {function!r}", hint=hint, at=0)


def _arity(call: Call, kind: Kind) -> Finding | None:
    wanted = 2 if kind.parameter else 1
    starred = any(piece.text == "*" for piece in call.arguments)
    if len(call.arguments) == wanted and (not starred or call.function == "count"):
        return None
    given = ", ".join(piece.text for piece in call.arguments)
    return Finding("bad-aggregate", f"{call.function} is written {kind.form}, and its arguments are ({given})", at=0)
