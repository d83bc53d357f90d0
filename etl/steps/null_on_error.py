"""Expressions of Spark that give null where they raise an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etl.expressions import PYTHON_FUNCTIONS
from etl.expressions.call_limits import LIMITS
from etl.expressions.tree import parse
from etl.steps.heartbeats import FENCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _keys_of_pairs(*columns: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.array(*columns[::2])


def _keys_of_maps(*columns: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.concat(*map(F.map_keys, columns))


def _keys_of_text(text: Column, pairs: Column | None = None, separator: Column | None = None) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    between, inside = F.lit(",") if pairs is None else pairs, F.lit(":") if separator is None else separator
    return F.transform(F.split(text, between), lambda pair: F.split(pair, inside, 2)[0])


def _transformed_keys(entries: Column, function: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.map_values(F.call_function("transform_values", entries, function))


_FROM_ENTRIES = "map_from_entries"

_KEYS: Mapping[str, Callable[..., Column]] = {
    "map": _keys_of_pairs,
    "map_concat": _keys_of_maps,
    "map_from_arrays": lambda keys, values: keys,
    "str_to_map": _keys_of_text,
    "transform_keys": _transformed_keys,
}
"""Function that makes a map of keys or pairs → the keys that it is to have. An error while Spark makes a map, of a key that is
null or comes twice, leaves entries that are added to the map of the next event: it is raised before."""


def null_on_error(events: DataFrame, text: str, spark_sql: str) -> Column:
    """``struct(value)``, or null where the evaluation raises an error that changes no later value."""
    from pyspark.sql import functions as F  # noqa: N812

    value, tries = F.expr(spark_sql), _Tries(events)
    nodes = [part for part in parse(text).walk() if type(part).__name__ == "Anonymous"]
    calls = {str(node.this).lower() for node in nodes}
    if calls & (PYTHON_FUNCTIONS | _KEYS.keys() | LIMITS.keys() | {_FROM_ENTRIES}):
        value = tries.rewritten(value)
    return tries.try_struct(value.alias("value"))


class _Tries:
    """Evaluations that give null where they raise an error: Spark has an expression for them, but no function."""

    def __init__(self, events: DataFrame) -> None:
        self._session: Any = events.sparkSession._jsparkSession
        jvm: Any = events.sparkSession._jvm
        self._jvm = jvm
        self._utils = jvm.org.apache.spark.sql.classic.ExpressionUtils

    def try_struct(self, *values: Column) -> Column:
        """``struct(values)``, or null where the evaluation raises an error.

        The condition is always true. It prevents Spark's elimination of common subexpressions, which would evaluate an
        expression that occurs twice only once, before and outside of both.
        """
        from pyspark.sql import functions as F  # noqa: N812

        tried = self._jvm.org.apache.spark.sql.catalyst.expressions.TryEval(self._expression(F.struct(*values)))
        return F.when(F.expr(FENCE), self._column(tried))

    def rewritten(self, value: Column) -> Column:
        """The same value, in which errors of the arguments of `PYTHON_FUNCTIONS` are raised where the call is evaluated, because
        Spark computes the arguments of all such calls before, for each event, and errors of keys before a map is made."""
        return self._column(self._rewrite(self._parsed(value)))

    def _parsed(self, column: Any) -> Any:
        """The tree of an expression, which `_expression` leaves to be parsed later."""
        return self._session.expression(column._jc)

    def _rewrite(self, expression: Any) -> Any:
        given = expression.children()
        children = [self._rewrite(given.apply(number)) for number in range(given.size())]
        is_call = expression.getClass().getSimpleName() == "UnresolvedFunction"
        name = expression.nameParts().last().lower() if is_call else ""
        if name in PYTHON_FUNCTIONS:
            return self._with_tried_arguments(expression, children)
        is_constant = all(one.getClass().getSimpleName() == "Literal" for one in children)
        if (name in _KEYS and not is_constant) or name == _FROM_ENTRIES:
            return self._with_checked_keys(name, expression, children)
        if name in LIMITS and len(children) in LIMITS[name][1]:
            return self._with_limit(name, expression, children)
        return self._with_children(expression, children) if children else expression

    def _with_limit(self, name: str, expression: Any, children: list[Any]) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        is_refused = LIMITS[name][0](*map(self._column, children))
        made = self._column(self._with_children(expression, children))
        return self._expression(F.when(is_refused, F.raise_error(F.lit("a limit"))).otherwise(made))

    def _with_tried_arguments(self, expression: Any, children: list[Any]) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        names = [f"a{number}" for number in range(len(children))]
        tried = self.try_struct(*(self._column(one).alias(name) for one, name in zip(children, names, strict=True)))
        call = self._column(self._with_children(expression, [self._expression(tried[name]) for name in names]))
        return self._expression(F.when(tried.isNull(), F.raise_error(F.lit("an argument"))).otherwise(call))

    def _with_checked_keys(self, name: str, expression: Any, children: list[Any]) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        columns = [self._column(one) for one in children]
        made = self._column(self._with_children(expression, children))
        if name == "map":  # whose values are then computed before the map is begun
            made = F.map_from_arrays(F.array(*columns[::2]), F.array(*columns[1::2]))
        keys = self._keys_of_entries(*columns) if name == _FROM_ENTRIES else _KEYS[name](*columns)
        is_wrong = F.exists(keys, lambda key: key.isNull()) | (F.size(keys) != F.size(F.array_distinct(keys)))
        return self._expression(F.when(is_wrong, F.raise_error(F.lit("keys"))).otherwise(made))

    def _keys_of_entries(self, entries: Column) -> Column:
        """The first member of each struct, whatever its name; null where one of them is null, as the map is then."""
        from pyspark.sql import functions as F  # noqa: N812

        none = getattr(self._jvm, "scala.Option$").__getattr__("MODULE$").empty()
        member = self._jvm.org.apache.spark.sql.catalyst.expressions.GetStructField
        keys = F.transform(entries, lambda entry: self._column(member(self._expression(entry), 0, none)))
        return F.when(~F.exists(entries, lambda entry: entry.isNull()), keys)

    def _with_children(self, expression: Any, children: list[Any]) -> Any:
        return expression.withNewChildren(self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(children))

    def _expression(self, column: Any) -> Any:
        return self._utils.expression(column._jc)

    def _column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as ClassicColumn

        return ClassicColumn(self._utils.column(expression))
