"""OVER → the step `over`, one for each window that the calls of a SELECT have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from etl.sql.columns import SqlColumn, TimeAttribute
from etl.sql.expressions import call_name, duration, key_field, plain_column, seconds_of, spark_text
from etl.sql.forms.batch_over import BATCH_HINT, with_all_rows
from etl.sql.relation import Relation, Settings, StepText
from etl.sql.statements import ScriptError, start, text_key
from etl.sql.windows import is_arrival, time_options

ONE_KEY = "all_rows"
"""Key of all rows, where they are not partitioned."""
_RANKS = ("rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lead", "nth_value")


def with_named_windows(node: Any) -> Any:
    """The SELECT with the windows of its WINDOW clause in the calls that name them. Raises ScriptError."""
    from sqlglot import exp

    named = {one.this.name.lower(): one for one in node.args.get("windows") or []}
    calls = [one for item in node.expressions for one in item.find_all(exp.Window) if one.args.get("alias")]
    if not calls:
        return node
    node = node.copy()
    for call in [one for item in node.expressions for one in item.find_all(exp.Window) if one.args.get("alias")]:
        name = call.args["alias"].name
        window = named.get(name.lower())
        if window is None:
            known = ", ".join(one.this.name for one in named.values())
            raise ScriptError(
                "unknown-name", f"there is no window {name!r}", start(call), f"the windows are {known}" if known else "add WINDOW"
            )
        call.set("alias", None)
        for key in ("partition_by", "order", "spec"):
            if window.args.get(key) and not call.args.get(key):
                given = window.args[key]
                call.set(key, [one.copy() for one in given] if isinstance(given, list) else given.copy())
    return node


def run_over(node: Any, relation: Relation, rank_name: str | None, settings: Settings) -> Relation:
    """The relation with the values of all calls with OVER; ``rank_name``: of a column that is computed already."""
    from sqlglot import exp

    calls = [one for item in node.expressions for one in item.find_all(exp.Window) if item.alias_or_name.lower() != rank_name]
    windows: dict[tuple[str, ...], list[Any]] = {}
    for call in calls:
        windows.setdefault(tuple(str(call.args.get(key)) for key in ("partition_by", "order", "spec")), []).append(call)
    number = 0
    for same in windows.values():
        names = {_name(call, relation) or f"over_{number + at + 1}": call for at, call in enumerate(same)}
        number += len(same)
        relation = with_all_rows(relation, names) if settings.is_batch else _with_window(relation, names, settings.time_to_live)
    return relation


def _name(call: Any, relation: Relation) -> str | None:
    """The alias of a call, where all fields of the rows are in the result with it."""
    from sqlglot import exp

    item = call.parent
    return str(item.alias) if relation.scope.is_open and isinstance(item, exp.Alias) else None


def _with_window(relation: Relation, calls: Mapping[str, Any], ttl: Mapping[str, str]) -> Relation:
    scope, first = relation.scope, next(iter(calls.values()))
    keys = [key_field(key, scope) for key in first.args.get("partition_by") or []]
    order = first.args.get("order")
    column = plain_column(order.expressions[0].this, scope) if order else None
    if order and is_arrival(order.expressions[0].this, scope):
        column = SqlColumn("", "", "timestamp", TimeAttribute())
    if column is None or column.time is None or order.expressions[0].args.get("desc"):
        raise ScriptError(
            "unsupported-sql",
            "OVER is ordered by a time column, ascending",
            start(first),
            f"ORDER BY the column with the WATERMARK; {BATCH_HINT}",
        )
    aggregates = {name: _aggregate(call, scope) for name, call in calls.items()}
    aliases = {text_key(call): name for name, call in calls.items()}
    options = {
        "type": "over",
        "keys": keys or [ONE_KEY],
        **({"time": column.field, "changelog": True} if relation.changes_at is not None else time_options(column)),
        "aggregates": aggregates,
        **(frame := _frame(first)),
        **({} if "within" in frame else ttl),
    }
    starts: dict[tuple[str | int, ...], int] = {("aggregates", name): start(call) for name, call in calls.items()}
    scope = replace(scope, aliases={**scope.aliases, **aliases})
    if not keys:
        relation = relation.then(StepText({"type": "set", "fields": {ONE_KEY: "1"}}, start(first)))
    return relation.then(StepText(options, start(first), starts), scope=scope, is_exact=False)


def _aggregate(call: Any, scope: Any) -> str:
    name = call_name(call.this)
    if name == "row_number":
        return "count(*)"  # rows of a key come one after the other
    if name in _RANKS:
        needs = "rows that come later" if name in ("lead", "ntile", "percent_rank", "cume_dist") else "the order of other values"
        raise ScriptError(
            "unsupported-sql",
            f"{name.upper()} of a stream depends on {needs}",
            start(call),
            f"ROW_NUMBER() … <= n chooses rows, and LAG(x) looks back; {BATCH_HINT}",
        )
    return spark_text(call.this, scope)


def _frame(call: Any) -> dict[str, Any]:
    """Options ``rows`` or ``within`` of ``ROWS`` or ``RANGE BETWEEN … PRECEDING AND CURRENT ROW``."""
    spec = call.args.get("spec")
    if spec is None:
        return {}
    if spec.args.get("end") not in ("CURRENT ROW", None):
        raise ScriptError(
            "unsupported-sql", "a frame of OVER ends at CURRENT ROW", start(call), f"later rows are not known yet; {BATCH_HINT}"
        )
    if spec.args.get("start") in (None, "UNBOUNDED"):
        return {}
    if spec.args.get("start") == "CURRENT ROW":
        raise ScriptError("unsupported-sql", "a frame of OVER begins before the row", start(call), "BETWEEN 1 PRECEDING AND …")
    if str(spec.args.get("kind")).upper() == "ROWS":
        if not spec.args["start"].name.isdecimal():
            raise ScriptError("unsupported-sql", "ROWS takes a number", start(call), "ROWS BETWEEN 9 PRECEDING AND CURRENT ROW")
        rows = int(spec.args["start"].name) + 1
        if rows < 2:
            raise ScriptError("unsupported-sql", "a frame of OVER has two rows at least", start(call), "name the column itself")
        return {"rows": rows}
    return {"within": duration(seconds_of(spec.args["start"]) + 0.001)}  # both ends count in SQL
