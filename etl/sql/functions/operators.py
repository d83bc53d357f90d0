"""Operators: arithmetic, comparisons, patterns, tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from etl.sql.functions.intervals import (
    INTERVAL_TYPES,
    interval_arithmetic,
    interval_number,
    interval_value,
    is_interval,
    rewrite_comparison,
    shifted_time,
    unit_of,
)
from etl.sql.functions.script_dialect import is_rsql
from etl.sql.functions.typed_nodes import FRACTIONS, call, refuse_mixture, sql_type, typed, unwrapped, with_floats
from etl.sql.statements import ScriptError, start


def rewrite_arithmetic(name: str) -> Callable[[Any, Any], Any]:
    def rewrite(node: Any, written: Any) -> Any:
        from sqlglot import exp

        left, right = node.this, node.expression
        for time, interval, sign in ((left, right, 1), (right, left, 1)):
            if isinstance(interval, exp.Interval) and not isinstance(time, exp.Interval):
                if name == "multiply":
                    break
                if not is_interval(time):
                    return shifted_time(time, interval, -1 if name == "subtract" else sign)
        if is_interval(left) or is_interval(right):
            return interval_arithmetic(name, left, right, start(written))
        types = {sql_type(left), sql_type(right)}
        if name == "divide" and is_rsql():
            return call("flink_quotient", unwrapped(left), unwrapped(right)) if any(map(_may_be_decimal, (left, right))) else node
        if types & FRACTIONS and not types & {"string", "boolean"} and name != "mod":
            return typed(node, "double")
        return typed(
            call(f"flink_{name}", unwrapped(left), unwrapped(right)), _result_type(name, sql_type(left), sql_type(right))
        )

    return rewrite


def _may_be_decimal(node: Any) -> bool:
    """Whether a value is a decimal, or the result of arithmetic whose type is not known here."""
    type_ = sql_type(node)
    return type_.startswith("decimal") if type_ else str(getattr(unwrapped(node), "this", "")).startswith("flink_")


def _result_type(name: str, left: str | None, right: str | None) -> str | None:
    order = ("tinyint", "smallint", "int", "bigint")
    if left in order and right in order:
        return right if name == "mod" else max(str(left), str(right), key=order.index)
    return None


def rewrite_negative(node: Any, written: Any) -> Any:
    from sqlglot import exp

    if is_interval(node.this):
        value = interval_value(node.this)
        made = typed(call(f"flink_{sql_type(value)}", call("flink_negate", interval_number(value))), sql_type(value))
        made.meta["unit"] = unit_of(value)
        return made
    if isinstance(node.this, exp.Literal):
        return typed(node, "int" if _is_beyond(node.this) else sql_type(node.this))
    inner = unwrapped(node.this)
    if isinstance(inner, exp.Neg) and isinstance(inner.this, exp.Literal) and _is_beyond(inner.this):
        return typed(inner.this, "bigint")
    return node if sql_type(node.this) in FRACTIONS else call("flink_negate", unwrapped(node.this))


def _is_beyond(literal: Any) -> bool:
    """Whether ``- 2147483648`` is an INT, whose number without the sign is none."""
    return str(literal.this) == str(2**31)


def rewrite_concatenation(node: Any, written: Any) -> Any:
    """``a || b`` of texts."""
    refuse_mixture([node.this, node.expression], start(written))
    return typed(node, "string") if "string" in (sql_type(node.this), sql_type(node.expression)) else node


def rewrite_case(node: Any, written: Any) -> Any:
    results = [one.args["true"] for one in node.args.get("ifs") or []]
    refuse_mixture([*results, *filter(None, [node.args.get("default")])], start(written))
    default = node.args.get("default")
    wide = with_floats([*results, *filter(None, [default])])
    for one, result in zip(node.args.get("ifs") or [], wide, strict=False):
        one.set("true", result)
    if default is not None:
        node.set("default", wide[-1])
    types = {sql_type(one) for one in wide}
    if types == {"float"}:
        return typed(node, "float")
    types = {sql_type(one) for one in results}
    return typed(node, types.pop()) if len(types) == 1 and types <= set(INTERVAL_TYPES) else node


def rewrite_if(node: Any, written: Any) -> Any:
    """``IF(condition, a, b)``."""
    from sqlglot import exp

    if isinstance(written.parent, exp.Case) or node.args.get("false") is None:
        return node
    refuse_mixture([node.args["true"], node.args["false"]], start(written))
    true, false = with_floats([node.args["true"], node.args["false"]])
    node.set("true", true)
    node.set("false", false)
    return typed(node, sql_type(true)) if sql_type(true) == sql_type(false) else node


def rewrite_like(node: Any, written: Any) -> Any:
    """Without ESCAPE a backslash means itself."""
    from sqlglot import exp

    if isinstance(node.parent, exp.Escape) or isinstance(written.parent, exp.Escape):
        return node
    return match_call("flink_like", node)


def match_call(name: str, node: Any, *more: Any) -> Any:
    from sqlglot import exp

    pattern = node.expression
    if name == "flink_like" and isinstance(pattern, exp.Literal) and (not more or len(more[0].name) == 1):
        if not more and "\\" in pattern.this:
            pattern.replace(exp.Literal.string(pattern.this.replace("\\", "\\\\")))
        return node
    made = call(name, node.this, pattern, *more)
    return exp.Not(this=made) if node.args.get("negate") else made


def rewrite_escape(node: Any, written: Any) -> Any:
    from sqlglot import exp

    inner = node.this
    if isinstance(inner, exp.SimilarTo):
        return match_call("flink_similar", inner, node.expression)
    return node if isinstance(inner.expression, exp.Literal) else match_call("flink_like", inner, node.expression)


def rewrite_between(node: Any, written: Any) -> Any:
    from sqlglot import exp

    if not node.args.get("symmetric"):
        return node
    value, low, high = (node.args[name] for name in ("this", "low", "high"))
    one, other = (exp.Between(this=value.copy(), low=a.copy(), high=b.copy()) for a, b in ((low, high), (high, low)))
    return exp.Paren(this=exp.Or(this=one, expression=other))


def rewrite_is_distinct(node: Any) -> Any:
    """``IS DISTINCT FROM``."""
    from sqlglot import exp

    return exp.Not(this=exp.Paren(this=exp.NullSafeEQ(this=node.this, expression=node.expression)))


def rewrite_is(node: Any, written: Any) -> Any:
    kind = node.expression
    if type(kind).__name__ != "JSON":
        return node
    kind_name = str(kind.args.get("this") or "value").lower()
    arguments = () if kind_name in ("value", "false") else (kind_name,)
    return call("flink_is_json", node.this, *arguments)


def rewrite_in(node: Any, written: Any) -> Any:
    """``(a, b) IN ((1, 'x'), (2, 'y'))``: a row is equal if all its values are. Raises ScriptError."""
    from sqlglot import exp

    rows = written.expressions
    if not _is_row(written.this) or not rows or not all(map(_is_row, rows)):
        nested = rows and _is_nested(node.this)
        return (
            exp.Paren(this=exp.or_(*(call("flink_equal", node.this.copy(), one) for one in node.expressions))) if nested else node
        )
    names, count = node.this.expressions, len(node.this.expressions)
    if any(len(one.expressions) != count for one in rows):
        hint = "each row after IN has as many values as the one before it"
        raise ScriptError(
            "wrong-arguments", f"a row of {count} values is compared with another number of values", start(written), hint
        )
    equal = [exp.and_(*map(_equality, names, row.expressions)) for row in node.expressions]
    return exp.Paren(this=exp.or_(*equal))


def rewrite_equality(node: Any, written: Any) -> Any:
    """``a = b``, and ``(a, b) = (1, 'x')``."""
    from sqlglot import exp

    if _is_row(written.this) and _is_row(written.expression):
        made = rewrite_in(
            exp.In(this=node.this, expressions=[node.expression]), exp.In(this=written.this, expressions=[written.expression])
        )
        return exp.Not(this=made) if isinstance(node, exp.NEQ) else made
    if _is_nested(node.this) or _is_nested(node.expression):
        equal = call("flink_equal", node.this, node.expression)
        return exp.Not(this=equal) if isinstance(node, exp.NEQ) else equal
    return rewrite_comparison(node, written)


def _is_row(written: Any) -> bool:
    """``(a, b)`` or ``ROW(a, b)``."""
    return type(written).__name__ == "Tuple" or (type(written).__name__ == "Anonymous" and str(written.this).upper() == "ROW")


def _is_nested(node: Any) -> bool:
    """Whether a value is known to be an array, map or row."""
    made = str(getattr(unwrapped(node), "this", "")).lower()
    return made in ("flink_array", "flink_map", "flink_row") or (sql_type(node) or "").startswith(("array", "map", "struct"))


def _equality(left: Any, right: Any) -> Any:
    from sqlglot import exp

    return exp.EQ(this=left.copy(), expression=right.copy())
