"""GROUPING SETS, ROLLUP and CUBE: each row counts once for each set, under the set's number and the keys that it has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

from etl.sql.columns import SqlColumn
from etl.sql.expressions import call_name, find_aggregates, plain_column, spark_text
from etl.sql.grouping import members
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError, start, text_key
from etl.sql.windows import GROUP_WINDOWS

MAX_SETS = 64
"""Sets of one GROUP BY; each row is copied once for each."""
SET = "grouping_set"
"""Field with the number of the set."""


@dataclass(frozen=True)
class _Sets:
    keys: list[Any]
    """Expressions that are in some sets."""
    sets: list[frozenset[str]]
    """The keys of each set, by their text."""
    common: list[Any]
    """Expressions that are in all sets, windows among them."""


def expanded(node: Any, relation: Relation) -> tuple[Any, Relation]:
    """A SELECT with one list of keys, and the relation with its rows once for each set; both unchanged without sets. Raises
    ScriptError."""
    group = node.args.get("group")
    if group is None or not any(_is_sets(one) for one in group.expressions):
        return node, relation
    at = start(group)
    found = _read(group.expressions, relation, at)
    relation, names = _with_sets(relation, found, at)
    return _rewrite(node, found, names), relation


def _is_sets(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, (exp.GroupingSets, exp.Rollup, exp.Cube))


def _text(node: Any) -> str:
    return text_key(node)


def _read(entries: list[Any], relation: Relation, at: int) -> _Sets:
    lists = [_sets_of(one) if _is_sets(one) else [members(one)] for one in entries]
    if _product(lists) > MAX_SETS:
        raise ScriptError("unsupported-sql", f"GROUP BY has more than {MAX_SETS} sets", at, "use GROUPING SETS with those needed")
    combined = [[key for part in parts for key in part] for parts in product(*lists)]
    in_all = set.intersection(*({_text(key) for key in keys} for keys in combined)) if combined else set()
    first = {_text(key): key for keys in combined for key in keys}
    bounds = {text for text, key in first.items() if _is_bound(key, relation)}
    if bounds - in_all:
        raise ScriptError("unsupported-sql", "a window is in all sets, or in none", at, "write it beside GROUPING SETS")
    keys = [key for text, key in first.items() if text not in in_all]
    return _Sets(keys, [frozenset(map(_text, keys)) for keys in combined], [first[text] for text in first if text in in_all])


def _product(lists: list[list[list[Any]]]) -> int:
    count = 1
    for one in lists:
        count *= len(one)
    return count


def _is_bound(key: Any, relation: Relation) -> bool:
    return call_name(key) in GROUP_WINDOWS or (
        relation.window is not None and str(key.name).lower() in ("window_start", "window_end", "window_time")
    )


def _sets_of(node: Any) -> list[list[Any]]:
    """The sets of one entry of GROUP BY."""
    from sqlglot import exp

    parts = [members(one) for one in node.expressions]
    if isinstance(node, exp.GroupingSets):
        return [
            found
            for one, part in zip(node.expressions, parts, strict=True)
            for found in (_sets_of(one) if _is_sets(one) else [part])
        ]
    if isinstance(node, exp.Rollup):
        return [[key for part in parts[:size] for key in part] for size in range(len(parts), -1, -1)]
    if len(parts) > 6:
        raise ScriptError(
            "unsupported-sql", f"CUBE of {len(parts)} keys has more than {MAX_SETS} sets", start(node), "use GROUPING SETS"
        )
    chosen = (one for size in range(len(parts), -1, -1) for one in combinations(parts, size))
    return [[key for part in one for key in part] for one in chosen]


def _with_sets(relation: Relation, found: _Sets, at: int) -> tuple[Relation, dict[str, str]]:
    """The relation with a row for each set; text of a key → the column that holds it, null where the set lacks it."""
    taken = {column.field for column in relation.columns}
    numbers = f"array({', '.join(str(number) for number in range(len(found.sets)))})"
    keys: dict[str, str] = {}
    fields: dict[str, str] = {}
    columns = [SqlColumn(SET, SET, "int")]
    for key in found.keys:
        plain = plain_column(key, relation.scope)
        base = f"{plain.name}_of_set" if plain else f"key_{len(keys) + 1}_of_set"
        name = next(one for number in range(1, 10_000) if (one := base + ("" if number == 1 else f"_{number}")) not in taken)
        taken.add(name)
        keys[_text(key)] = name
        inside = [str(number) for number, one in enumerate(found.sets) if _text(key) in one]
        fields[name] = f"case when {SET} in ({', '.join(inside)}) then {spark_text(key, relation.scope)} end"
        columns.append(SqlColumn(name, name, plain.type if plain else None))
    scope = replace(relation.scope, columns=(*relation.columns, *columns))
    steps = [StepText({"type": "set", "fields": {SET: numbers}}, at), StepText({"type": "unnest", "field": SET}, at)]
    if fields:
        steps.append(StepText({"type": "set", "fields": fields}, at))
    return relation.then(*steps, scope=scope, is_exact=False), keys


def _rewrite(node: Any, found: _Sets, names: dict[str, str]) -> Any:
    """The SELECT over the columns of the sets, grouped by them and by the number of the set."""
    from sqlglot import exp

    node = node.copy()
    columns = [_column(name) for name in names.values()]
    at = start(node.args["group"])
    group = exp.Group(expressions=[*(one.copy() for one in found.common), _column(SET), *columns])
    group.meta["start"] = at
    node.set("group", group)
    for item in list(node.expressions):
        alias = item.alias or (item.name if _text(item) in names else "")
        changed = _with_names(item.unalias(), found, names)
        item.replace(exp.alias_(changed, alias, quoted=True) if alias else changed)
    if having := node.args.get("having"):
        having.set("this", _with_names(having.this, found, names))
    return node


def _column(name: str) -> Any:
    from sqlglot import exp

    return exp.column(name, quoted=True)


def _with_names(node: Any, found: _Sets, names: dict[str, str]) -> Any:
    """An expression with the columns of the sets for keys, outside of aggregates, and with its GROUPING computed."""
    inside = {id(one) for call in find_aggregates(node) for one in call.walk()}

    def change(one: Any) -> Any:
        if id(one) in inside:
            return one
        if call_name(one) in ("grouping", "grouping_id", "group_id"):
            return _grouping(one, found)
        name = names.get(_text(one))
        if name is None:
            return one
        column = _column(name)
        column.meta["start"] = start(one)
        return column

    return node.transform(change, copy=False)


def _grouping(call: Any, found: _Sets) -> Any:
    """``GROUPING(a)``: 1 where the set lacks the key; of several keys the number with a bit for each."""
    from sqlglot import exp

    if call_name(call) == "group_id":
        return _bigint(exp.Literal.number(0))
    known = {text for one in found.sets for text in one}
    for key in call.expressions:
        if _text(key) not in known:
            raise ScriptError("unknown-field", f"{key.sql(dialect='spark')!r} is not a key of GROUP BY", start(key))
    bits = []
    for one in found.sets:
        number = 0
        for key in call.expressions:
            number = number * 2 + (_text(key) not in one)
        bits.append(number)
    case = exp.Case(this=_column(SET), default=None)
    for number, value in enumerate(bits):
        case = case.when(exp.Literal.number(number), _bigint(exp.Literal.number(value)), copy=False)
    return case


def _bigint(node: Any) -> Any:
    from sqlglot import exp

    return exp.TryCast(this=node, to=exp.DataType.build("bigint"))
