"""ORDER BY, LIMIT, OFFSET and FETCH → the steps `over_all` in batch mode, and `top`, `over` and `filter` over streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from etl.sql.columns import Scope, leaves
from etl.sql.expressions import plain_column, quoted
from etl.sql.forms.batch_over import BATCH_HINT, order_texts
from etl.sql.forms.over import ONE_KEY
from etl.sql.relation import FOR_EVER, Relation, Settings, StepText
from etl.sql.statements import ScriptError, start
from etl.sql.windows import time_options

ROW_NUMBER_FIELD = "row_place"
"""Field with the number of a row in the order."""


_MAX_DIGITS = 18
"""Digits of a number of rows or of a column."""


@dataclass(frozen=True)
class Ordering:
    """What a query says of the order and the number of its rows."""

    order: Sequence[Any]
    limit: int | None
    offset: int
    at: int

    @classmethod
    def of(cls, node: Any) -> Ordering | None:
        """None for a query that says nothing. Raises ScriptError."""
        from sqlglot import exp

        order, limit, offset = (node.args.get(key) for key in ("order", "limit", "offset"))
        if order is None and limit is None and offset is None:
            return None
        at = next(found for one in (order, limit, offset) if one is not None and (found := start(one)) is not None)
        count = None
        if isinstance(limit, exp.Fetch):
            count = _number(limit.args.get("count"), at, default=1)
        elif limit is not None and limit.expression.name.upper() != "ALL":
            count = _number(limit.expression, at)
        return cls(order.expressions if order else (), count, 0 if offset is None else _number(offset.expression, at), at)

    def resolved(self, items: Sequence[Any]) -> Ordering:
        """With the expressions of the list of SELECT for their numbers and names."""
        from sqlglot import exp

        aliases = {one.alias.lower(): one.unalias() for one in items if one.alias}
        found = []
        for one in self.order:
            node = one.this
            if isinstance(node, exp.Literal) and not node.is_string:
                if not node.name.isdecimal() or len(node.name) > _MAX_DIGITS or not 0 < int(node.name) <= len(items):
                    raise ScriptError("wrong-arguments", f"there is no column {node.name[:20]}", start(one) or self.at)
                node = items[int(node.name) - 1].unalias()
            elif isinstance(node, exp.Column) and not node.table:
                node = aliases.get(node.name.lower(), node)
            one = one.copy()
            one.set("this", node.copy())
            found.append(one)
        return Ordering(found, self.limit, self.offset, self.at)


def _number(node: Any, at: int, default: int | None = None) -> int:
    if node is None and default is not None:
        return default
    if getattr(node, "is_string", True) or not node.name.isdecimal():
        raise ScriptError("wrong-arguments", "LIMIT and OFFSET take a number", at, "LIMIT 10")
    if len(node.name) > _MAX_DIGITS:
        raise ScriptError("wrong-arguments", f"LIMIT and OFFSET take a number of at most {_MAX_DIGITS} digits", at, "LIMIT 10")
    return int(node.name)


def ordered_rows(relation: Relation, ordering: Ordering, settings: Settings) -> Relation:
    """The relation in this order, with at most ``limit`` rows; a field `ROW_NUMBER_FIELD` may be added. Raises ScriptError."""
    if ordering.limit == 0:
        return relation.then(StepText({"type": "filter", "where": "false"}, ordering.at))
    order = order_texts(ordering.order, relation.scope)
    is_cut = ordering.limit is not None or ordering.offset > 0
    if settings.is_batch:
        options: dict[str, Any] = {"type": "over_all"} | ({"order_by": order} if order else {})
        options |= {"aggregates": {ROW_NUMBER_FIELD: "row_number()"}} if is_cut else {}
        relation = relation.then(StepText(options, ordering.at), is_exact=False, changes_at=None)
        return _cut(relation, ordering) if is_cut else relation
    if order and ordering.limit is None:
        return _in_order_of_time(relation, ordering)
    if ordering.limit is None:
        hint = f"add LIMIT, or {BATCH_HINT}"
        raise ScriptError("unsupported-sql", "OFFSET over a stream needs LIMIT", ordering.at, hint)
    if not order and relation.changes_at is None:
        return _cut(_numbered(relation, ordering.at), ordering)
    return _best(relation, ordering, order or {"1": "ascending"}, settings)


def _cut(relation: Relation, ordering: Ordering, until: bool = True) -> Relation:
    parts = [f"{ROW_NUMBER_FIELD} > {ordering.offset}"] if ordering.offset else []
    if until and ordering.limit is not None:
        parts.append(f"{ROW_NUMBER_FIELD} <= {ordering.offset + ordering.limit}")
    return relation.then(StepText({"type": "filter", "where": " and ".join(parts)}, ordering.at)) if parts else relation


def _numbered(relation: Relation, at: int) -> Relation:
    """Rows with their numbers, in the order in which they come."""
    options = {"type": "over", "keys": [ONE_KEY], "aggregates": {ROW_NUMBER_FIELD: "count(*)"}}
    one_key = StepText({"type": "set", "fields": {ONE_KEY: "1"}}, at)
    return relation.then(one_key, StepText(options, at), is_exact=False)


def _best(relation: Relation, ordering: Ordering, order: dict[str, str], settings: Settings) -> Relation:
    """The first rows so far, which later ones replace."""
    assert ordering.limit is not None
    by, *then = order
    options: dict[str, Any] = {"type": "top", "by": by, "order": order[by], "nulls": "smallest"}
    options |= {"then": {text: order[text] for text in then}} if then else {}
    options |= {"limit": ordering.offset + ordering.limit, "rank": ROW_NUMBER_FIELD, "changelog": True}
    options |= {} if settings.ttl == FOR_EVER else {"ttl": settings.ttl}
    relation = relation.then(StepText(options, ordering.at), is_exact=False, changes_at=ordering.at)
    return _cut(relation, ordering, until=False)


def _in_order_of_time(relation: Relation, ordering: Ordering) -> Relation:
    """Rows sorted by event time, each when the watermark has passed it."""
    first = ordering.order[0]
    column = plain_column(first.this, relation.scope)
    if (
        column is None
        or column.time is None
        or first.args.get("desc")
        or len(ordering.order) > 1
        or relation.changes_at is not None
    ):
        hint = f"add LIMIT, order by the column with the WATERMARK, or {BATCH_HINT}"
        raise ScriptError("unsupported-sql", "ORDER BY over a stream has no end to wait for", ordering.at, hint)
    if column.time.late is None:
        return relation
    options = {"type": "over", "keys": [ONE_KEY], **time_options(column), "aggregates": {ROW_NUMBER_FIELD: "count(*)"}}
    one_key = StepText({"type": "set", "fields": {ONE_KEY: "1"}}, ordering.at)
    return relation.then(one_key, StepText(options, ordering.at), is_exact=False)


def without_row_number(relation: Relation, scope: Scope, at: int) -> Relation:
    """The columns of the scope alone."""
    fields = {leaf.field: quoted(leaf.field) for column in scope.columns for leaf in leaves(column)}
    return relation.then(StepText({"type": "select", "fields": fields}, at), scope=scope, is_exact=True)
