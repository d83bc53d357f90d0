"""``WHERE rank <= n`` around a query that computes ``ROW_NUMBER() … AS rank``, and QUALIFY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from etl.sql.expressions import call_name
from etl.sql.join_conditions import conjuncts
from etl.sql.relation import RankLimit
from etl.sql.statements import start

QUALIFY = "qualify_"
"""Beginning of the names of ranks that QUALIFY computes."""


def rank_limit(node: Any) -> tuple[RankLimit | None, Any]:
    """``WHERE rank <= n`` over a sub-query with ROW_NUMBER() AS rank: the limit, and WHERE without it (None: as it was)."""
    from sqlglot import exp

    from_ = node.args.get("from_") or node.args.get("from")
    inner = from_.this if from_ is not None else None
    if not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Select):
        return None, None
    return _find_limit(node.args.get("where"), inner.this.expressions) or (None, None)


def qualify_limit(node: Any) -> tuple[RankLimit, Any] | None:
    """The same for ``WHERE rank <= n`` in the query itself that computes the rank, which stands for QUALIFY."""
    return _find_limit(node.args.get("where"), node.expressions)


def _find_limit(where: Any, items: Sequence[Any]) -> tuple[RankLimit, Any] | None:
    """The limit of the rank among these items, and what else WHERE says, False for nothing."""
    from sqlglot import exp

    names = {
        item.alias.lower(): item.alias
        for item in items
        if isinstance(item.unalias(), exp.Window) and item.alias and _is_rank(item.unalias().this)
    }
    rest, limit = [], None
    for part in conjuncts(where.this) if where is not None and names else ():
        found = _limit(part, names)
        if found is None or (limit is not None and found[0].name != limit.name):
            rest.append(part)
            continue
        rest += [] if found[1] else [part]
        limit = found[0] if limit is None or found[0].limit < limit.limit else limit
    if limit is None:
        return None
    return limit, exp.Where(this=exp.and_(*rest)) if rest else False


def _is_rank(node: Any) -> bool:
    return call_name(node) in ("row_number", "rank", "dense_rank")


_MIRRORED = {"GTE": "LTE", "GT": "LT", "LTE": "GTE", "LT": "GT", "EQ": "EQ"}
"""Comparison → the same with its sides changed."""


def _limit(node: Any, names: dict[str, str]) -> tuple[RankLimit, bool] | None:
    """The largest rank that meets a condition, and whether all smaller ones do, too."""
    from sqlglot import exp

    if isinstance(node, exp.Between):
        found = _limit(exp.LTE(this=node.this, expression=node.args["high"]), names)
        low = _number(node.args["low"])
        return None if found is None or low is None else (found[0], low <= 1)
    kind = type(node).__name__
    if isinstance(node, (exp.LTE, exp.LT, exp.GTE, exp.GT, exp.EQ)) and _number(node.this) is not None:
        node, kind = getattr(exp, _MIRRORED[kind])(this=node.expression, expression=node.this), _MIRRORED[kind]
    if kind not in ("LTE", "LT", "EQ") or not isinstance(node.this, exp.Column):
        return None
    name, value = names.get(node.this.name.lower()), _number(node.expression)
    if name is None or value is None or value - (kind == "LT") < 1:
        return None
    return RankLimit(name, value - (kind == "LT")), kind != "EQ" or value == 1


def _number(node: Any) -> int | None:
    from sqlglot import exp

    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal() and len(node.name) <= 18
    return int(node.name) if is_number else None


def without_qualify(node: Any) -> Any | None:
    """For a SELECT with QUALIFY: one over it, whose WHERE is that condition. None for others."""
    from sqlglot import exp

    clause = node.args.get("qualify")
    if clause is None:
        return None
    inner, condition, added = node.copy(), clause.this.copy(), []
    inner.set("qualify", None)
    outer = exp.Select(expressions=[exp.Star()])
    for key in ("order", "limit", "offset", "distinct"):
        outer.set(key, inner.args.get(key))
        inner.set(key, None)
    root = exp.Paren(this=condition)
    for number, call in enumerate(list(root.find_all(exp.Window)), 1):
        added.append(exp.to_identifier(f"{QUALIFY}{number}"))
        inner.append("expressions", exp.alias_(call.copy(), added[-1].name))
        column = exp.column(added[-1].name)
        column.meta["start"] = start(call)
        call.replace(column)
    outer.expressions[0].set("except_", [exp.column(one.name) for one in added])
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("qualified")))))
    outer.set("where", exp.Where(this=root.this))
    outer.meta["start"] = start(node)
    return outer
