"""The reasons for which Spark could not compute an expression for some events. Spark itself names none where it does not stop
the query, so they come from the parts that have an Arrow form: first from those that are evaluated for each event, then from
those behind a condition. Otherwise they name the expression and the values that it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import cut
from etl.expressions.analysis import analyse, bind_tree, evaluate_bound
from etl.expressions.output_limit import MAX_CHARACTERS, TOO_LONG
from etl.expressions.rows import Evaluation, merge_failures
from etl.expressions.tree import parse

_LONGEST_EXPRESSION = 120
_LONGEST_VALUE = 60
_MAX_VALUES = 5
"""Numbers of characters, and of values, that a reason quotes."""

_FIRST_ARGUMENT_ONLY = frozenset(["coalesce", "nvl", "nvl2", "ifnull", "if", "iff"])
"""Functions that evaluate only their first argument for each event."""


MAX_ELEMENTS = 1 << 20
"""Elements of one array that Spark lists or repeats."""

_AFFIX = r"(?:[^#0-9,.;'%‰¤E]|'[^']*')*"
_DIGITS = r"(?:(?:#+,)*#*(?:0+,)*0+(?:\.0*#*)?|(?:#+,)*#+(?:\.0*#*)?|\.0+#*|\.#+)(?:E0+)?"
_NUMBER = f"{_AFFIX}(?:[%‰]{_AFFIX})?{_DIGITS}{_AFFIX}|{_AFFIX}{_DIGITS}{_AFFIX}[%‰]{_AFFIX}"
NUMBER_PATTERN = f"^(?:(?:{_NUMBER})(?:;(?:{_NUMBER}))?)?$"
"""Patterns of Java's DecimalFormat: none that it refuses, and all with digits but for a few of no use, such as `0;`."""


def _replacement_growth(text: str, old: str, new: str = "") -> int:
    """How many characters ``replace`` adds."""
    return text.count(old) * (len(new) - len(old)) if old else 0


_REFUSED: Mapping[str, tuple[str, Callable[..., bool]]] = {
    "repeat": (TOO_LONG, lambda text, count: count * max(len(text or ""), 1) > MAX_CHARACTERS),
    "space": (TOO_LONG, lambda count: count > MAX_CHARACTERS),
    "lpad": (TOO_LONG, lambda text, count, *filling: count > MAX_CHARACTERS),
    "rpad": (TOO_LONG, lambda text, count, *filling: count > MAX_CHARACTERS),
    "replace": (TOO_LONG, lambda *texts: None not in texts and _replacement_growth(*texts) > MAX_CHARACTERS),
    "array_join": (TOO_LONG, lambda array, between, other="": len(array) * (len(between + other) - 4) > MAX_CHARACTERS),
    "array_repeat": (f"the array would have more than {MAX_ELEMENTS:,} elements", lambda one, count: count > MAX_ELEMENTS),
    "array_insert": (f"the array would have more than {MAX_ELEMENTS:,} elements", lambda _, at, one: abs(at) > MAX_ELEMENTS),
    "sequence": (
        f"the array would have more than {MAX_ELEMENTS:,} elements",
        lambda first, last, step=1: abs(last - first) > MAX_ELEMENTS * abs(step),
    ),
    "format_number": (
        "format_number takes a number of digits, or a pattern such as '#,##0.00'",
        lambda number, pattern: isinstance(pattern, str) and not re.match(NUMBER_PATTERN, pattern),
    ),
}
"""Function → the reason for which a call is refused, and whether it is. An argument that only Spark computes is None."""


def describe_failures(text: str, rows: pa.RecordBatch) -> list[str]:
    """Return the reason for each of these rows, all of which fail in the expression ``text``."""
    tree = parse(text)
    found = merge_failures([*_failures_of_parts(tree, rows, _certain_parts), *_failures_of_parts(tree, rows, _all_parts)])
    reasons = found[1].to_pylist() if found else [None] * rows.num_rows
    general = _general_reasons(text, rows) if None in reasons else []
    return [reason or general[number] for number, reason in enumerate(reasons)]


def _failures_of_parts(node: Any, rows: pa.RecordBatch, parts_of: Callable[[Any], list[Any]]) -> Iterator[Evaluation]:
    """The results of the largest parts that have an Arrow form."""
    analysis, bound = bind_tree(node, rows.schema, "")
    if bound.run is not None and not analysis.is_volatile:
        if bound.fails:
            columns = {name: rows.column(name) for name in analysis.fields}
            yield evaluate_bound(bound.run, columns, rows.num_rows, bound.type)
        return
    for part in parts_of(node):
        yield from _failures_of_parts(part, rows, parts_of)
    if type(node).__name__ == "Anonymous" and str(node.this).lower() == "raise_error" and len(node.expressions) == 1:
        yield from _raised_texts(node.expressions[0], rows)
    if type(node).__name__ == "Anonymous" and str(node.this).lower() in _REFUSED:
        yield _refused_calls(node, rows)


def _refused_calls(node: Any, rows: pa.RecordBatch) -> Evaluation:
    """The rows for which a call would be too large, or has a pattern that there is not."""
    reason, is_refused = _REFUSED[str(node.this).lower()]
    arguments = []
    for one in node.expressions:
        analysis, bound = bind_tree(one, rows.schema, "")
        values: Any = [None] * rows.num_rows
        if bound.run is not None:
            columns = {name: rows.column(name) for name in analysis.fields}
            values = evaluate_bound(bound.run, columns, rows.num_rows, bound.type).values.to_pylist()
        arguments.append(values)
    failed = []
    for row in zip(*arguments, strict=True):
        try:
            failed.append(is_refused(*row))
        except TypeError:  # of an argument that is not known, or of another number of arguments
            failed.append(False)
    reasons = [reason if one else None for one in failed]
    return Evaluation(pa.nulls(rows.num_rows), pa.array(failed, pa.bool_()), pa.array(reasons, pa.string()))


def _raised_texts(message: Any, rows: pa.RecordBatch) -> Iterator[Evaluation]:
    """The texts with which ``raise_error`` fails, if they have an Arrow form."""
    analysis, bound = bind_tree(message, rows.schema, "")
    if bound.run is not None and pa.types.is_string(bound.type):
        texts = evaluate_bound(bound.run, {name: rows.column(name) for name in analysis.fields}, rows.num_rows, bound.type).values
        yield Evaluation(texts, pc.is_valid(texts), texts)


def _all_parts(node: Any) -> list[Any]:
    """The parts of a node that are expressions over the event's fields."""
    return [part for part in node.iter_expressions() if type(part).__name__ not in ("DataType", "Lambda", "Identifier", "Var")]


def _certain_parts(node: Any) -> list[Any]:
    """Those that are evaluated for each event, whatever the values of others are."""
    kind, parts = type(node).__name__, _all_parts(node)
    if kind == "Case":
        return [node.this or node.args["ifs"][0].this]
    is_first_only = kind in ("And", "Or", "If") or (kind == "Anonymous" and str(node.this).lower() in _FIRST_ARGUMENT_ONLY)
    return parts[:1] if is_first_only else parts


def _general_reasons(text: str, rows: pa.RecordBatch) -> list[str]:
    """``Spark cannot compute element_at(tags, 3) where tags is ['a']``"""
    names = sorted(analyse(text, rows.schema).fields)[:_MAX_VALUES]
    shown = " ".join(text.split())
    columns = [[cut(repr(value), _LONGEST_VALUE) for value in rows.column(name).to_pylist()] for name in names]
    values = [" and ".join(map("{} is {}".format, names, row)) for row in zip(*columns, strict=True)] or [""] * rows.num_rows
    start = f"Spark cannot compute {cut(shown, _LONGEST_EXPRESSION)}"
    return [f"{start} where {row}" if row else start for row in values]
