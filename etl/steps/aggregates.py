"""The aggregates of a window: ``count(distinct user_name) filter (where port > 0)`` → type, findings and Spark SQL.

An aggregate is one call of a function in `KINDS`; its arguments are expressions over the event's fields. The call
is cut into pieces by tokens, the pieces are analysed as expressions, and each kind says what Spark computes for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from etl.api import Finding, Schema, nearest
from etl.expressions import analyse

MOST_COLLECTED = 100_000
"""Spark's own bound on the values that ``min_by`` keeps."""


class Piece(NamedTuple):
    """A part of the text, and where in it the part begins."""

    text: str
    at: int


class Call(NamedTuple):
    """An aggregate taken apart, its arguments not yet looked at."""

    function: str
    arguments: tuple[Piece, ...]
    where: Piece | None = None


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


_ORDER = "\0order\0"


@dataclass(frozen=True)
class Kind:
    """One aggregate function: what it looks like, the type it gives (None where it takes no such type), its Spark SQL.

    In ``sql`` stand ``{x}`` the argument, ``{n}`` the parameter, ``{where}`` the filter clause, ``{given}`` the filter
    clause that also removes nulls, ``{order}`` the order of events.
    """

    form: str
    sql: str
    result: Callable[[pa.DataType], pa.DataType | None]
    takes: str = "any value"
    parameter: Callable[[str], str | None] | None = None
    merge: str | None = None
    """The aggregate that makes one result of several parts' results, where there is one."""


# ── Types ─────────────────────────────────────────────────────────────────────────────────────────


def _count(_: pa.DataType) -> pa.DataType:
    return pa.int64()


def _boolean(type_: pa.DataType) -> pa.DataType | None:
    return pa.int64() if pa.types.is_boolean(type_) or pa.types.is_null(type_) else None


def _comparable(type_: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_map(type_) else pa.int64()


def _same(type_: pa.DataType) -> pa.DataType:
    return type_


def _ordered(type_: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_map(type_) else type_


def _list(type_: pa.DataType) -> pa.DataType:
    return pa.list_(type_)


def _sum(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(38, type_.precision + 10), type_.scale)
    if pa.types.is_integer(type_):
        return pa.int64()
    return _double(type_)


def _average(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(38, type_.precision + 4), min(38, type_.scale + 4))
    return _double(type_)


def _double(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_null(type_):
        return type_
    return pa.float64() if _is_number(type_) else None


def _placed(type_: pa.DataType) -> pa.DataType | None:
    times = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
    return type_ if times or pa.types.is_null(type_) or _is_number(type_) else None


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


# ── Parameters ────────────────────────────────────────────────────────────────────────────────────


def _share(text: str) -> str | None:
    try:
        good = 0 <= float(text) <= 1
    except ValueError:
        good = False
    return None if good else f"the second argument is a number from 0 to 1, and it is {text!r}"


def _bound(text: str) -> str | None:
    good = text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_COLLECTED and len(text) <= 9
    return None if good else f"the second argument is a whole number from 1 to {MOST_COLLECTED}, and it is {text!r}"


# ── Kinds ─────────────────────────────────────────────────────────────────────────────────────────

_NUMBERS = "numbers"
_COMPARABLE = "values that can be compared"

KINDS: dict[str, Kind] = {
    "count": Kind("count(*)", "count({x}){where}", _count, merge="sum"),
    "count distinct": Kind(
        "count(distinct x)", "cast(size(collect_set({x}){where}) as bigint)", _comparable, _COMPARABLE
    ),  # Spark refuses count(distinct) in streams
    "count_if": Kind("count_if(condition)", "count_if({x}){where}", _boolean, "a condition", merge="sum"),
    "sum": Kind("sum(x)", "try_sum({x}){where}", _sum, _NUMBERS),
    "min": Kind("min(x)", "min({x}){where}", _ordered, _COMPARABLE, merge="min"),
    "max": Kind("max(x)", "max({x}){where}", _ordered, _COMPARABLE, merge="max"),
    "avg": Kind("avg(x)", "try_avg({x}){where}", _average, _NUMBERS),
    "approx_count_distinct": Kind(
        "approx_count_distinct(x)", "approx_count_distinct({x}){where}", _comparable, _COMPARABLE
    ),
    "first": Kind("first(x)", "min_by({x}, {order}){given}", _same),
    "last": Kind("last(x)", "max_by({x}, {order}){given}", _same),
    "collect": Kind(
        "collect(x, 100)", "coalesce(min_by({x}, {order}, {n}){given}, array())", _list, parameter=_bound
    ),
    "percentile": Kind("percentile(x, 0.95)", "percentile({x}, {n}){where}", _double, _NUMBERS, _share),
    "approx_percentile": Kind(
        "approx_percentile(x, 0.95)", "percentile_approx({x}, {n}){where}", _placed, "numbers, dates and timestamps", _share
    ),
}  # fmt: skip
"""Aggregate functions by name."""


# ── Checking ──────────────────────────────────────────────────────────────────────────────────────


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
        findings.append(Finding("wrong-type", f"{kind.form} takes {kind.takes}, and this is {value.type}", at=argument.at))
    if call.where and not where.failed and where.type not in (pa.bool_(), pa.null()):
        findings.append(Finding("wrong-type", f"a filter is a condition, and this is {where.type}", at=call.where.at))
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
        return cls(found.type, f"({found.spark_sql})", frozenset(found.fields), tuple(moved))


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


# ── Cutting the text ──────────────────────────────────────────────────────────────────────────────


class _Token(NamedTuple):
    word: str
    start: int
    end: int


def read_call(text: str) -> Call | Finding:
    """``f(x, n) filter (where c)`` → its pieces, or a finding that says how an aggregate is written."""
    tokens = _tokens(text)
    if isinstance(tokens, Finding):
        return tokens
    bad = Finding("bad-aggregate", f"{text!r} is not one call of an aggregate", hint="write for example sum(x) or count(*)", at=0)
    words = [token.word for token in tokens]
    close = _closing(words, 1)
    if close is None:
        return bad
    function, first = words[0], 2
    if words[2] == "distinct":
        function, first = f"{function} distinct", 3
    arguments = tuple(_pieces(text, tokens, first, close))
    rest = words[close + 1 :]
    if not rest:
        return Call(function, arguments)
    if rest[:3] != ["filter", "(", "where"] or _closing(words, close + 2) != len(words) - 1 or len(rest) < 5:
        return bad
    return Call(function, arguments, _cut(text, tokens[close + 4 : -1]))


def _tokens(text: str) -> list[_Token] | Finding:
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import TokenError

    try:
        found = Spark().tokenize(text)
    except TokenError as error:
        return Finding("bad-aggregate", f"{text!r} cannot be read: {error}", at=0)
    return [_Token(text[t.start : t.end + 1].lower(), t.start, t.end + 1) for t in found]


def _closing(words: list[str], opening: int) -> int | None:
    """The place of the bracket that closes the one at ``opening``."""
    if words[opening : opening + 1] != ["("]:
        return None
    depth = 0
    for at in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[at], 0)
        if depth == 0:
            return at
    return None


def _pieces(text: str, tokens: list[_Token], first: int, close: int) -> Iterable[Piece]:
    """Arguments between two places, cut at the commas outside brackets."""
    begin, depth = first, 0
    for at in range(first, close + 1) if first < close else ():
        word = tokens[at].word
        if (word == "," and depth == 0) or at == close:
            yield _cut(text, tokens[begin:at])
            begin = at + 1
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(word, 0)


def _cut(text: str, tokens: list[_Token]) -> Piece:
    return Piece(text[tokens[0].start : tokens[-1].end], tokens[0].start) if tokens else Piece("", 0)
