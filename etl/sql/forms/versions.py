"""``JOIN t FOR SYSTEM_TIME AS OF l.time`` over a stream of versions → the step `join` with ``match: latest``."""

from __future__ import annotations

from typing import Any

from etl.sql.columns import Scope, SqlColumn
from etl.sql.expressions import call_name, duration, plain_column
from etl.sql.join_conditions import JoinCondition, conjuncts
from etl.sql.joins import KINDS, join_step
from etl.sql.relation import FOR_EVER, Relation
from etl.sql.statements import CreateView, ScriptError, start


def version_time(join: Any, scope: Scope) -> SqlColumn | None:
    """The event time as of which versions are looked up; None for the time of reading. Raises ScriptError."""
    node = join.this.args["version"].expression
    if call_name(node) == "proctime":
        return None
    column = plain_column(node, scope)
    if column is None or column.time is None:
        raise ScriptError(
            "missing-watermark",
            "FOR SYSTEM_TIME AS OF takes a time column",
            start(node),
            "PROCTIME(), or a column with a WATERMARK",
        )
    return column if column.time.late is not None else None


def versions_of(view: CreateView) -> Any:
    """The query of a view that gives the last row of each key, without the condition ``ROW_NUMBER() … = 1``: the join needs all
    versions, not only the last."""
    from sqlglot import exp

    node = view.query
    from_ = node.args.get("from_") if isinstance(node, exp.Select) else None
    where = node.args.get("where") if from_ is not None else None
    if from_ is None or where is None or not isinstance(from_.this, exp.Subquery):
        return node
    inner = from_.this.this
    ranks = {
        item.alias.lower()
        for item in inner.expressions
        if isinstance(item.unalias(), exp.Window) and call_name(item.unalias().this) == "row_number"
    }
    rest = [part for part in conjuncts(where.this) if not _is_first(part, ranks)]
    if not ranks or len(rest) == len(list(conjuncts(where.this))):
        return node
    node = node.copy()
    node.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    inner = node.args["from_"].this.this
    inner.set("expressions", [item for item in inner.expressions if item.alias.lower() not in ranks])
    return node


def _is_first(node: Any, ranks: set[str]) -> bool:
    from sqlglot import exp

    is_bound = isinstance(node, (exp.EQ, exp.LTE)) and isinstance(node.this, exp.Column) and node.this.name.lower() in ranks
    return is_bound and node.expression.name == "1"


def version_join(
    left: Relation, right: Relation, time: SqlColumn, condition: JoinCondition, side: str, prefix: str, at: int
) -> Relation:
    """The rows of the left side with the version of the right one that was valid at their time. Raises ScriptError."""
    versions = next((one for one in right.columns if one.time is not None and one.time.late is not None), None)
    if versions is None:
        raise ScriptError(
            "missing-watermark",
            "the versions have no event time",
            at,
            "declare a WATERMARK for the time from which a version is valid, or join FOR SYSTEM_TIME AS OF PROCTIME()",
        )
    if side not in ("", "LEFT"):
        raise ScriptError("unsupported-sql", f"{side} JOIN of versions is not supported", at, "JOIN and LEFT JOIN are")
    joined = join_step(left, right, condition, KINDS[side], prefix, FOR_EVER, at)
    [step] = joined.steps
    others = ("within", "before", "after", "time", "right_time", "changelog", "ttl")
    options = {key: value for key, value in step.options.items() if key not in others}
    assert time.time is not None
    assert versions.time is not None
    options |= {"match": "latest", "time": time.field, "late": duration(max(time.time.late or 0, versions.time.late or 0))}
    if versions.field != time.field:
        options["right_time"] = versions.field
    return Relation(joined.inputs, (type(step)(options, step.at, step.starts),), joined.scope, None, is_exact=False)
