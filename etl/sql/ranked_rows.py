"""``ROW_NUMBER() OVER (…) AS rank`` below ``WHERE rank <= n``: the steps `dedupe` and `top`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from etl.sql.columns import Scope, SqlColumn, TimeAttribute
from etl.sql.expressions import call_name, key_field, plain_column, spark_text
from etl.sql.forms.batch_over import order_texts
from etl.sql.forms.over import ONE_KEY
from etl.sql.forms.rank_limits import QUALIFY
from etl.sql.relation import RankLimit, Relation, Settings, StepText, WindowRows
from etl.sql.statements import ScriptError, start, text_key
from etl.sql.window_bounds import all_bounds
from etl.sql.windows import is_arrival, time_options

_ARRIVAL = "number_of_row"
"""Field with the number of a row among those of its key, in the order of reading."""
_BOUNDS = frozenset({"window_start", "window_end"})
"""Columns of the key of rows that are ranked within windows."""


class RankedRows:
    """Compiles the rank of a SELECT to a step that passes the best rows of each partition."""

    def __init__(self, node: Any, relation: Relation, settings: Settings, rank: RankLimit) -> None:
        self._node = node
        self._relation = relation
        self._settings = settings
        self._rank = rank

    def compile(self) -> Relation:
        """The rows that are ranked no lower than the limit. Raises ScriptError."""
        item = next(one for one in self._node.expressions if one.alias.lower() == self._rank.name.lower())
        over = item.unalias()
        scope = self._relation.scope
        partition = over.args.get("partition_by") or []
        assigned = self._relation.window
        if assigned is not None and not assigned.closed and {key.name.lower() for key in partition} >= _BOUNDS:
            self._assign_windows(assigned, over)
            scope = self._relation.scope
        keys = [key_field(key, self._relation.scope) for key in partition]
        order = over.args.get("order")
        if order is None or len(order.expressions) == 0:
            raise ScriptError("unsupported-sql", "ROW_NUMBER() needs ORDER BY", start(over))
        first = order.expressions[0]
        column = plain_column(first.this, scope)
        ties = call_name(over.this)
        by_arrival = is_arrival(first.this, scope)
        by_time = by_arrival or (column is not None and column.time is not None)
        is_first = by_time and self._rank.limit == 1 and not first.args.get("desc")
        if is_first and self._relation.window is None and self._relation.changes_at is None:
            self._dedupe(keys, column, over)
            return self._relation
        window = self._relation.window
        if window is None or not {key.lower() for key in keys} >= _BOUNDS or window.spacing is None:
            ways = self._by_arrival(keys, first, over) if by_arrival else order_texts(order.expressions, scope)
            self._changing_top(keys, ways, ties, over)
        else:
            self._window_top(window, keys, first, ties, over)
        return self._relation

    def _assign_windows(self, window: WindowRows, over: Any) -> None:
        """Add the bounds of the windows that rows are assigned to; those of TUMBLE are added by the step `top`."""
        if window.options.keys() - {"time", "late", "size"} or window.offset:
            self._relation = all_bounds(self._relation, start(over))
            return
        fields = {"window_start": "window_start", "window_end": "window_end", "window_time": "window_end"}
        bounds = [SqlColumn(name, field, "timestamp", TimeAttribute(0)) for name, field in fields.items()]
        scope = self._relation.scope
        self._relation = self._relation.then(scope=replace(scope, columns=(*scope.columns, *bounds)))

    def _window_top(self, window: WindowRows, keys: list[str], order: Any, ties: str, over: Any) -> None:
        """The best rows of each window, once it closes."""
        options: dict[str, Any] = {"type": "top"}
        if window.closed:
            options |= {"time": window.start, "size": window.spacing, "late": window.late}
        else:
            options |= window.options
        starts = {"window_start"} if window.closed and "step" in window.options else _BOUNDS  # several windows have one start
        if others := [key for key in keys if key.lower() not in starts]:
            options["keys"] = others
        by = spark_text(order.this, self._relation.scope)
        options |= {"by": by, "limit": self._rank.limit, "nulls": "smallest", "rank": self._rank.name, "ties": ties}
        if not order.args.get("desc"):
            options["order"] = "ascending"
        closed = replace(window, closed=True)
        self._add(options, start(over), {("by",): start(order.this)}, scope=self._with_rank(over), window=closed)

    def _by_arrival(self, keys: list[str], first: Any, over: Any) -> dict[str, str]:
        """The order of reading: rows with their numbers in a key. Raises ScriptError for rows that change."""
        if self._relation.changes_at is not None:
            hint = "order by a column of the rows"
            raise ScriptError("unsupported-sql", "rows that change are not ranked by the time of reading", start(over), hint)
        options: dict[str, Any] = {"type": "over", "keys": keys or [ONE_KEY], "aggregates": {_ARRIVAL: "count(*)"}}
        if not keys:
            self._add({"type": "set", "fields": {ONE_KEY: "1"}}, start(over))
        self._add(options | self._settings.time_to_live, start(over))
        return {_ARRIVAL: "descending" if first.args.get("desc") else "ascending"}

    def _changing_top(self, keys: list[str], ways: dict[str, str], ties: str, over: Any) -> None:
        """The best rows over all time, which later ones replace."""
        by, *then = ways
        options: dict[str, Any] = {"type": "top", **({"keys": keys} if keys else {})}
        options |= {"by": by, "order": ways[by], "nulls": "smallest"}
        options |= {"then": {text: ways[text] for text in then}} if then else {}
        options |= {"limit": self._rank.limit, "rank": self._rank.name, "changelog": True}
        options |= {} if ties == "row_number" else {"ties": ties}
        options |= self._settings.time_to_live
        self._add(options, start(over), {("by",): start(over.args["order"])}, scope=self._with_rank(over), changes_at=start(over))

    def _dedupe(self, keys: list[str], column: SqlColumn | None, over: Any) -> None:
        options = {
            "type": "dedupe",
            "keys": keys,
            **(time_options(column) if column else {}),
            "within": self._settings.ttl,
            "keep": "first",
        }
        self._add(options, start(over))
        if self._relation.scope.is_open and self._rank.name.startswith(QUALIFY):  # no query names the rank
            self._relation = replace(self._relation, scope=self._with_rank(over))
            return
        self._add({"type": "set", "fields": {self._rank.name: "1"}}, start(over), scope=self._with_rank(over))

    def _with_rank(self, over: Any) -> Scope:
        """The scope in which the rank is computed already."""
        scope = self._relation.scope
        return replace(scope, aliases={**scope.aliases, text_key(over): self._rank.name})

    def _add(
        self, options: dict[str, Any], at: int, starts: dict[tuple[str | int, ...], int] | None = None, **changes: Any
    ) -> None:
        self._relation = self._relation.then(StepText(options, at, starts or {}), is_exact=False, **changes)
