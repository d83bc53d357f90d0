"""``WHERE rank <= n`` around a query that computes ``ROW_NUMBER() … AS rank``."""

from __future__ import annotations

from typing import Any

from etl.sql.expressions import call_name
from etl.sql.joins import conjuncts
from etl.sql.relation import RankLimit


def rank_limit(node: Any) -> tuple[RankLimit | None, Any]:
    """``WHERE rank <= n`` over a sub-query with ROW_NUMBER() AS rank: the limit, and WHERE without it (None: as it was)."""
    from sqlglot import exp

    from_ = node.args.get("from_") or node.args.get("from")
    where = node.args.get("where")
    inner = from_.this if from_ is not None else None
    if where is None or not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Select):
        return None, None
    names = {
        item.alias.lower(): item.alias
        for item in inner.this.expressions
        if isinstance(item.unalias(), exp.Window) and item.alias and _is_rank(item.unalias().this)
    }
    rest, limit = [], None
    for part in conjuncts(where.this):
        found = _limit(part, names)
        if found:
            limit = found
        else:
            rest.append(part)
    if limit is None:
        return None, None
    return limit, exp.Where(this=exp.and_(*rest)) if rest else False


def _is_rank(node: Any) -> bool:
    return call_name(node) in ("row_number", "rank", "dense_rank")


def _limit(node: Any, names: dict[str, str]) -> RankLimit | None:
    from sqlglot import exp

    if not isinstance(node, (exp.LTE, exp.LT, exp.EQ)) or not isinstance(node.this, exp.Column):
        return None
    name = names.get(node.this.name.lower())
    if name is None or not isinstance(node.expression, exp.Literal) or not node.expression.name.isdecimal():
        return None
    value = int(node.expression.name) - isinstance(node, exp.LT)
    return RankLimit(name, value) if value > 0 and (not isinstance(node, exp.EQ) or value == 1) else None


def qualify_limit(node: Any) -> tuple[RankLimit, Any] | None:
    """The same for ``WHERE rank <= n`` in the query itself that computes the rank, which stands for QUALIFY."""
    from sqlglot import exp

    where = node.args.get("where")
    names = {
        item.alias.lower(): item.alias
        for item in node.expressions
        if isinstance(item.unalias(), exp.Window) and item.alias and _is_rank(item.unalias().this)
    }
    parts = list(conjuncts(where.this)) if where is not None and names else []
    limits = [found for part in parts if (found := _limit(part, names))]
    if not limits:
        return None
    rest = [part for part in parts if _limit(part, names) is None]
    return limits[0], exp.Where(this=exp.and_(*rest)) if rest else False
