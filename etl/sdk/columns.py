"""Expressions in Python: ``col("bytes") > 1000`` is the text ``bytes > 1000`` of Spark SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn, final

from etl.api import nearest
from etl.sql.expressions import quoted, quoted_text

_OR, _AND, _NOT, _COMPARE, _BITS, _ADD, _MULTIPLY, _UNARY, _ATOM = range(9)
"""How strongly operators bind, from the weakest; a whole expression that is weaker than its context needs gets parentheses."""


@final
class Column:
    """An expression of Spark SQL over the fields of an event; ``str(column)`` is its text.

    Operators build longer ones: ``+ - * / %``, ``== != < <= > >=``, ``& | ~`` for AND, OR, NOT. Python evaluates ``and``, ``or``,
    ``not`` and ``in`` itself, so that they raise TypeError here; comparisons beside ``&`` and ``|`` need parentheses.
    """

    __slots__ = ("_strength", "_text", "functions")
    __hash__ = None  # type: ignore[assignment]  # two columns are not compared, == builds an expression

    def __init__(self, text: str, strength: int = _ATOM, functions: Sequence[Any] = ()) -> None:
        self._text, self._strength = text, strength
        self.functions: Sequence[Any] = functions
        """The functions of the user that it calls."""

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Column({self._text!r})"

    def __format__(self, spec: str) -> str:
        return format(self._text, spec)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            known = [one for one in dir(type(self)) if one[0] != "_" != name[0]]
            hint = nearest(name, known) or "functions stand in fn, as in fn.lower(col('a')); a member of a struct is col('a.b')"
            raise AttributeError(f"an expression has no {name!r}; {hint}", name=name, obj=self)

    # ── Operators ──

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return self._compare("<>", other)

    def __lt__(self, other: object) -> Column:
        return self._compare("<", other)

    def __le__(self, other: object) -> Column:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> Column:
        return self._compare(">", other)

    def __ge__(self, other: object) -> Column:
        return self._compare(">=", other)

    def __and__(self, other: object) -> Column:
        return _binary(self, "AND", other, _AND)

    def __rand__(self, other: object) -> Column:
        return _binary(other, "AND", self, _AND)

    def __or__(self, other: object) -> Column:
        return _binary(self, "OR", other, _OR)

    def __ror__(self, other: object) -> Column:
        return _binary(other, "OR", self, _OR)

    def __invert__(self) -> Column:
        return _combine(f"NOT {_inside(self, _NOT + 1)}", _NOT, self)

    def __add__(self, other: object) -> Column:
        return _binary(self, "+", other, _ADD)

    def __radd__(self, other: object) -> Column:
        return _binary(other, "+", self, _ADD)

    def __sub__(self, other: object) -> Column:
        return _binary(self, "-", other, _ADD)

    def __rsub__(self, other: object) -> Column:
        return _binary(other, "-", self, _ADD)

    def __mul__(self, other: object) -> Column:
        return _binary(self, "*", other, _MULTIPLY)

    def __rmul__(self, other: object) -> Column:
        return _binary(other, "*", self, _MULTIPLY)

    def __truediv__(self, other: object) -> Column:
        return _binary(self, "/", other, _MULTIPLY)

    def __rtruediv__(self, other: object) -> Column:
        return _binary(other, "/", self, _MULTIPLY)

    def __mod__(self, other: object) -> Column:
        return _binary(self, "%", other, _MULTIPLY)

    def __rmod__(self, other: object) -> Column:
        return _binary(other, "%", self, _MULTIPLY)

    def __neg__(self) -> Column:
        return _combine(f"-{_inside(self, _ATOM)}", _UNARY, self)

    def __getitem__(self, key: object) -> Column:
        """An element: ``col("tags")[0]`` of an array (from 0), ``col("labels")["env"]`` of a map."""
        return _combine(f"{_inside(self, _ATOM)}[{_inside(key, _OR)}]", _ATOM, self, key)

    # ── What Python would evaluate by itself ──

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the expression {self._text!r} has no truth value in Python: write & for and, | for or, ~ for not, with parentheses "
            "around comparisons, such as (col('a') > 1) & (col('b') < 2); isin(…) for in; between(…) for a < b < c"
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"the expression {self._text!r} has no elements in Python; the step `unnest` makes events of an array")

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(
            f"`in` is evaluated by Python: write fn.contains({self._text}, …) for a text, fn.array_contains(…) for an array"
        )

    # ── Predicates and conversions ──

    def is_null(self) -> Column:
        """``IS NULL``."""
        return _combine(f"{_inside(self, _COMPARE + 1)} IS NULL", _COMPARE, self)

    def is_not_null(self) -> Column:
        """``IS NOT NULL``."""
        return _combine(f"{_inside(self, _COMPARE + 1)} IS NOT NULL", _COMPARE, self)

    def equals_null_safe(self, other: object) -> Column:
        """``<=>``: equal, or both null; never null itself."""
        return self._compare("<=>", other)

    def isin(self, *values: object) -> Column:
        """``IN``: one of the values, given one by one or as one list."""
        first = values[0] if len(values) == 1 else values
        given = first if isinstance(first, (list, tuple, set, frozenset)) else values
        if not given:
            raise ValueError("isin() needs at least one value: IN () is not an expression of SQL")
        ordered = sorted(given, key=repr) if isinstance(given, (set, frozenset)) else given
        texts = ", ".join(_inside(value, _OR) for value in ordered)
        return _combine(f"{_inside(self, _COMPARE + 1)} IN ({texts})", _COMPARE, self, *ordered)

    def between(self, low: object, high: object) -> Column:
        """``BETWEEN low AND high``, both included."""
        limits = f"{_inside(low, _COMPARE + 1)} AND {_inside(high, _COMPARE + 1)}"
        return _combine(f"{_inside(self, _COMPARE + 1)} BETWEEN {limits}", _COMPARE, self, low, high)

    def like(self, pattern: object) -> Column:
        """``LIKE``: ``%`` is any text, ``_`` any character."""
        return self._compare("LIKE", pattern)

    def ilike(self, pattern: object) -> Column:
        """``ILIKE``: as `like`, whatever the case of letters."""
        return self._compare("ILIKE", pattern)

    def rlike(self, pattern: object) -> Column:
        """``RLIKE``: the regular expression matches somewhere in the text."""
        return self._compare("RLIKE", pattern)

    def cast(self, type_: str) -> Column:
        """``CAST(… AS type)``; a value that does not fit rejects the event."""
        return _combine(f"CAST({self._text} AS {type_})", _ATOM, self)

    def try_cast(self, type_: str) -> Column:
        """``TRY_CAST(… AS type)``; a value that does not fit becomes null."""
        return _combine(f"TRY_CAST({self._text} AS {type_})", _ATOM, self)

    def _compare(self, operator: str, other: object) -> Column:
        return _combine(f"{_inside(self, _COMPARE + 1)} {operator} {_inside(other, _COMPARE + 1)}", _COMPARE, self, other)


class When:
    """The beginning of a CASE; `otherwise` or `end` completes it."""

    def __init__(self, branches: tuple[str, ...], functions: Sequence[Any] = ()) -> None:
        self._branches, self.functions = branches, functions

    def when(self, condition: str | Column, value: object) -> When:
        """One more branch, for events that none before it has taken."""
        return When((*self._branches, _branch(condition, value)), (*self.functions, *_functions(condition, value)))

    def otherwise(self, value: object) -> Column:
        """The value of events that no branch has taken."""
        return Column(
            f"CASE {' '.join(self._branches)} ELSE {_inside(value, _OR)} END", _ATOM, (*self.functions, *_functions(value))
        )

    def end(self) -> Column:
        """Null for events that no branch has taken."""
        return Column(f"CASE {' '.join(self._branches)} END", _ATOM, self.functions)


def col(name: str) -> Column:
    """A field of the event; dots lead into structs: ``col("source.ip")``. ``col("*")`` is ``*``, as in ``count(*)``."""
    if not isinstance(name, str) or not name or "`" in name:
        raise ValueError(f"{name!r} is not the name of a field")
    return Column("*" if name == "*" else quoted(name))


def expr(text: str) -> Column:
    """An expression given as Spark SQL, to use in others: ``expr("size(tags)") > 2``."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{text!r} is not an expression")
    return Column(text.strip(), _OR if not text.strip().replace("_", "").replace(".", "").isalnum() else _ATOM)


def lit(value: object) -> Column:
    """A value: text, number, boolean, None, date, datetime (a local one if it has no zone), timedelta, Decimal, or a list."""
    if isinstance(value, Column):
        return value
    return Column(_literal(value), _UNARY if isinstance(value, (int, float, Decimal)) and value < 0 else _ATOM)


def when(condition: str | Column, value: object) -> When:
    """``CASE WHEN condition THEN value``; continue with ``.when(…)``, end with ``.otherwise(value)`` or ``.end()``."""
    return When((_branch(condition, value),), _functions(condition, value))


def call(function: str, arguments: Sequence[object], distinct: bool = False, functions: Sequence[Any] = ()) -> Column:
    """A call of a function of SQL; ``count()`` is ``count(*)``."""
    texts = ", ".join(_inside(one, _OR) for one in arguments) or ("*" if function == "count" else "")
    return Column(f"{function}({'DISTINCT ' if distinct else ''}{texts})", _ATOM, (*functions, *_functions(*arguments)))


def _branch(condition: str | Column, value: object) -> str:
    return f"WHEN {condition} THEN {_inside(value, _OR)}"


def _binary(left: object, operator: str, right: object, strength: int) -> Column:
    """Left-associative: the right operand needs parentheses at equal strength, unless the operator is AND or OR."""
    connective = operator in ("AND", "OR")
    for one in (left, right) if connective else ():
        if not isinstance(one, (Column, bool)):
            hint = "are parentheses missing, as in (a > 1) & (b < 2)?"
            raise TypeError(f"{operator} connects conditions, and {one!r} is none: {hint}")
    return _combine(f"{_inside(left, strength)} {operator} {_inside(right, strength + (not connective))}", strength, left, right)


def _combine(text: str, strength: int, *parts: object) -> Column:
    """An expression of these parts, of which it has the functions of the user."""
    return Column(text, strength, _functions(*parts))


def _functions(*parts: object) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(one for part in parts if isinstance(part, Column) for one in part.functions))


def _inside(value: object, strength: int) -> str:
    """The text of an operand in a context that needs at least this strength."""
    column = lit(value)
    return f"({column})" if column._strength < strength else str(column)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return quoted_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"array({', '.join(_inside(one, _OR) for one in value)})"
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}"
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP{'' if value.tzinfo else '_NTZ'} '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
        return f"INTERVAL {micros} MICROSECONDS" if micros % 1_000_000 else f"INTERVAL {micros // 1_000_000} SECONDS"
    raise TypeError(
        f"{value!r} ({type(value).__name__}) is not a value of an expression: text, number, boolean, None, date, datetime, "
        "timedelta, Decimal, a list of them, or an expression made by col(), lit(), fn or expr()"
    )
