"""The steps `join` and `lookup` → queries with JOIN. It may lack options of the step, as in `step_queries`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from etl.options import parse_duration
from etl.sql.forms.literals import identifier
from etl.sql.forms.step_queries import Step, interval, time_to_live_hint

_CLAUSES = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}
"""Kind of a join → the keywords of its clause."""

_ROWS, _TABLE = "t", "n"
"""Aliases of the rows that are looked up, and of the table."""


def join_query(step: Step, inputs: Sequence[str]) -> str | None:
    """The query that pairs the rows of the inputs; None for a step that has no form in SQL."""
    if step["type"] != "join":
        return None
    try:
        return _join(step, inputs)
    except (KeyError, ValueError, AttributeError, TypeError):  # options that are missing or have another type
        return None


def _join(step: Step, inputs: Sequence[str]) -> str:
    left, right = _sides(step, inputs)
    names = (left, right) if left != right else ("l", "r")
    aliases = ["", ""] if left != right else [" AS l", " AS r"]
    tables = [identifier(one) for one in (left, right)]
    left, right = (identifier(one) for one in names)
    conditions = [f"{_column(left, one)} = {_column(right, other)}" for one, other in key_pairs(step["on"]).items()]
    hint, version = "", ""
    if step.get("match") == "latest":
        version = f" FOR SYSTEM_TIME AS OF {_column(left, step['time'])}"
    elif "time" in step:
        conditions += _bounds(step, left, right)
    else:
        hint, _ = time_to_live_hint(step.get("ttl") if step.get("changelog") else step["within"], left)
    if step.get("where") is not None:
        where = str(step["where"])
        conditions.append(f"({where})" if re.search(r"\bor\b", where, re.IGNORECASE) else where)
    clause = _CLAUSES[step.get("kind", "inner")]
    rows = f"{tables[0]}{aliases[0]}\n{clause} {tables[1]}{version}{aliases[1]}"
    return f"SELECT{hint} * FROM {rows}\nON {' AND '.join(conditions)}"


def _sides(step: Step, inputs: Sequence[str]) -> tuple[str, str]:
    if len(inputs) == 1:
        return inputs[0], inputs[0]
    left, right = inputs
    return left, right


def key_pairs(on: Any) -> Mapping[str, str]:
    """Left field → right field."""
    if isinstance(on, Mapping):
        return on
    return {str(name): str(name) for name in ([on] if isinstance(on, str) else on)}


def side_times(step: Step, inputs: Sequence[str]) -> Mapping[str, str]:
    """Input → the field with the event time of its rows, for a join by event time."""
    if step["type"] != "join" or not isinstance(step.get("time"), str) or not 1 <= len(inputs) <= 2:
        return {}
    left, right = _sides(step, inputs)
    return {right: step.get("right_time") or step["time"], left: step["time"]}


def join_bounds(step: Step) -> tuple[timedelta, timedelta]:
    """How much earlier and later than the left row the right one may be. Raises ValueError for an invalid duration."""
    within = step.get("within")
    early, late = (step.get(name) if within is None else within for name in ("before", "after"))
    return parse_duration(early or "0s"), parse_duration(late or "0s")


def _bounds(step: Step, left: str, right: str) -> list[str]:
    one, other = _column(left, step["time"]), _column(right, step.get("right_time") or step["time"])
    before, after = join_bounds(step)
    if not before and not after:
        return [f"{one} = {other}"]
    first, last = f"{one} - {interval(before)}" if before else one, f"{one} + {interval(after)}" if after else one
    return [f"{other} BETWEEN {first} AND {last}"]


def lookup_query(step: Step, rows: str, keys: Sequence[str]) -> str | None:
    """The query that looks rows up in a table with these keys; None for a step that has no form in SQL."""
    fields = [step["on"]] if isinstance(step["on"], str) else list(step["on"])
    if step.get("several") != "all" or len(fields) != len(keys) or not isinstance(step.get("add"), Mapping):
        return None
    items = "".join(f",\n  {_column(_TABLE, column)} AS {identifier(str(name))}" for name, column in step["add"].items())
    clause = _CLAUSES["inner" if step.get("miss") == "drop" else "left"]
    on = " AND ".join(f"{_column(_ROWS, one)} = {_column(_TABLE, key)}" for one, key in zip(fields, keys, strict=True))
    table = f"{identifier(step['table'])} FOR SYSTEM_TIME AS OF PROCTIME() AS {_TABLE}"
    return f"SELECT *{items}\nFROM {rows} AS {_ROWS}\n{clause} {table}\nON {on}"


def _column(table: str, name: Any) -> str:
    return f"{table}.{identifier(str(name))}"
