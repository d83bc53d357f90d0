"""Functions of filter expressions → conditions in Spark SQL."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from etl.api import nearest
from etl.expressions.quoting import quoted, quoted_text
from etl.rsql.problems import SourceError

Condition = Callable[[str, str], str]
"""Makes a condition of a field and a value."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")

_MAX_DIGITS = 38
"""Characters of a number that is compared as one: Spark's numbers have no more digits."""

TYPES: Mapping[str, str] = {
    **dict.fromkeys(("int", "integer", "long", "short", "byte", "bigint"), "bigint"),
    **dict.fromkeys(("double", "float", "number", "decimal"), "double"),
    **dict.fromkeys(("string", "varchar"), "string"),
    "boolean": "boolean",
    **dict.fromkeys(("date", "timestamp", "datetime"), "timestamp"),
}
"""Types that stand between function and value → Spark's."""

_COMPARISONS: Mapping[str, str] = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", ">": ">", ">=": ">=", "<": "<", "<=": "<="}


def _list(value: str) -> str:
    return ", ".join(quoted_text(one.strip()) for one in value.split(","))


def _in(field: str, value: str) -> str:
    return f"cast({field} as string) in ({_list(value)})"


def _not_in(field: str, value: str) -> str:
    return f"cast({field} as string) not in ({_list(value)})"


def _like(field: str, value: str) -> str:
    return f"{field} like {_like_pattern(value)}"


def _not_like(field: str, value: str) -> str:
    return f"{field} not like {_like_pattern(value)}"


def _like_pattern(value: str) -> str:
    """A rule's pattern, in which a backslash stands for itself, as one of SQL, in which it escapes the next character."""
    return quoted_text(value.replace("\\", "\\\\"))


def _contains(field: str, value: str) -> str:
    return f"contains({field}, {quoted_text(value)})"


def _contains_folded(field: str, value: str) -> str:
    return f"contains(lower({field}), {quoted_text(value.lower())})"


def _regex(field: str, value: str) -> str:
    return f"{field} rlike {quoted_text(value)}"


def _regex_folded(field: str, value: str) -> str:
    return f"{field} rlike {quoted_text('(?i)' + value)}"


def _is_null(field: str, value: str) -> str:
    return f"coalesce(cast({field} as string), '') in ('', 'null')"


def _is_not_null(field: str, value: str) -> str:
    return f"coalesce(cast({field} as string), '') not in ('', 'null')"


def _in_network(field: str, value: str) -> str:
    return f"ip_in({field}, {_list(value)})"


def _not(positive: Condition) -> Condition:
    return lambda field, value: f"not {positive(field, value)}"


_FUNCTIONS: Mapping[str, Condition] = {
    "in": _in,
    "~in": _in,
    "contain": _in,
    "engine_in": _in,
    "!in": _not_in,
    "~!in": _not_in,
    "like": _like,
    "notLike": _not_like,
    "!like": _not_like,
    "contains": _contains,
    "notContains": _not(_contains),
    "containsCaseInsensitiveFunction": _contains_folded,
    "~contains": _contains_folded,
    "notContainsCaseInsensitiveFunction": _not(_contains_folded),
    "~notContains": _not(_contains_folded),
    "regex": _regex,
    "notRegex": _not(_regex),
    "!regex": _not(_regex),
    "regexCaseInsensitive": _regex_folded,
    "~regex": _regex_folded,
    "notRegexCaseInsensitive": _not(_regex_folded),
    "~!regex": _not(_regex_folded),
    "isNull": _is_null,
    "null": _is_null,
    "isNotNull": _is_not_null,
    "notNull": _is_not_null,
    "!null": _is_not_null,
    "ipContains": _in_network,
}

_ELSEWHERE: Mapping[str, str] = dict.fromkeys(
    ("in_expression_resouce", "not_in_expression_resouce", "in_resouce"),
    "a step lookup with the table, and filter by a field that it adds",
)
"""Functions that need what a condition does not have → what to use."""

_NAMES = (*_COMPARISONS, *_FUNCTIONS, "operator")


def condition(field: str, function: str | None, values: Sequence[str], at: int, function_at: int, *, is_list: bool = True) -> str:
    """The condition of a part; ``is_list``: several values without quotes are a list. Raises SourceError."""
    name = field.strip()
    if not name:
        raise SourceError("rule-syntax", "the part has no field", at, "a part is (field,function,value)")
    column = quoted(name)
    if function is None:
        return f"cast({column} as string) = 'true'"
    function = html.unescape(function)
    if function in _ELSEWHERE:
        raise SourceError("unknown-function", f"{function} does not exist here", function_at, _ELSEWHERE[function])
    if function not in _NAMES:
        folded = {one.lower(): one for one in _NAMES}.get(function.lower())
        hint = f"did you mean {folded!r}?" if folded else nearest(function, _NAMES) or f"one of: {', '.join(_NAMES)}"
        raise SourceError("unknown-function", f"there is no function {function!r}", function_at, hint)
    if not values:
        hint = f"write ({name},{function},)" if "ull" in function else f"write ({name},{function},value)"
        raise SourceError("rule-syntax", f"the function {function!r} has no value", function_at, hint)
    if function == "operator":
        return _script_condition(",".join(values), function_at)
    type_ = TYPES.get(values[0].lower()) if len(values) == 2 else None
    if type_ is None and len(values) > 1 and not is_list and _FUNCTIONS.get(function) not in (_in, _not_in):
        hint = f"types are {', '.join(TYPES)}"
        raise SourceError("unknown-type", f"{values[0]!r} is not a type of a value", function_at, hint)
    value = values[1] if type_ else ",".join(values)
    return _compare(column, function, value, type_, function_at)


def _compare(column: str, function: str, value: str, type_: str | None, at: int) -> str:
    if function not in _COMPARISONS:
        _check_value(function, value, at)
        return _FUNCTIONS[function](column, value)
    operator, is_equality = _COMPARISONS[function], _COMPARISONS[function] in ("=", "<>")
    is_number = _NUMBER.fullmatch(value.strip()) is not None
    if is_number and len(value.strip()) > _MAX_DIGITS and not (is_equality and type_ is None):
        raise SourceError("invalid-value", f"a number has more than {_MAX_DIGITS} characters", at, "compare it as a text")
    if type_ in ("bigint", "double"):
        if not is_number:
            raise SourceError("invalid-value", f"{value!r} is not a number", at, "the part declares its value as one")
        kind = type_ if value.strip().lstrip("+-").isdecimal() else "double"
        return f"try_cast({column} as {kind}) {operator} {value.strip()}"
    if type_ == "boolean":
        return f"try_cast({column} as boolean) {operator} {str(value.strip().lower() == 'true').lower()}"
    if type_ == "timestamp":
        return f"try_cast({column} as timestamp) {operator} try_cast({quoted_text(value.strip())} as timestamp)"
    if is_number and not is_equality and type_ is None:
        return f"try_cast({column} as double) {operator} {value.strip()}"
    if is_number or type_ == "string":
        return f"cast({column} as string) {operator} {quoted_text(value)}"
    return f"{column} {operator} {quoted_text(value)}"


def _check_value(function: str, value: str, at: int) -> None:
    """Raises SourceError for a pattern or network that cannot be read."""
    if "regex" in function.lower():
        from etl.expressions import analyse

        for finding in analyse(f"'' rlike {quoted_text(value)}", pa.schema([])).findings:
            raise SourceError(finding.code, finding.message, at, finding.hint)
    if _FUNCTIONS[function] is _in_network:
        import ipaddress

        for one in value.split(","):
            try:
                ipaddress.ip_network(one.strip(), strict=False)
            except ValueError as error:
                raise SourceError(
                    "invalid-value", f"{one.strip()!r} is not a network", at, "write an address or 10.0.0.0/8"
                ) from error


def _script_condition(script: str, at: int) -> str:
    """The condition of a script's expression, in which ``^^^^`` is a quote."""
    from etl.rsql.scripts import condition_of

    return condition_of(script.replace("^^^^", "'"), at)
