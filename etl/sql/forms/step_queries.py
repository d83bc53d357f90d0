"""Steps → queries of standard SQL: windows with GROUP BY, ROW_NUMBER() for the best and the first rows, OVER.

A query may lack options of the step: the caller compiles it and compares the result with the step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etl.options import parse_duration
from etl.sql.forms.literals import TOKEN, identifier, quoted_value
from etl.sql.relation import FOR_EVER

Step = Mapping[str, Any]


def query_of(step: Step, rows: str, table: str) -> str | None:
    """The query, None for a step without one. ``rows``: what FROM reads; ``table``: the same as the argument of a function."""
    write = _FORMS.get(str(step["type"]))
    try:
        return write(step, rows, table) if write is not None else None
    except (KeyError, ValueError, AttributeError, TypeError):  # options that are missing or have another type
        return None


def _window(step: Step, rows: str, table: str) -> str:
    """``GROUP BY window_start, window_end`` over the rows of a window function."""
    keys = [identifier(str(key)) for key in step.get("group_by") or ()]
    columns = ["window_start", "window_end", *keys]
    items = [*columns, *(f"{text} AS {identifier(str(name))}" for name, text in step["aggregates"].items())]
    listed = ",\n  ".join(items)
    having = f"\nHAVING {_with_aggregates(step)}" if step.get("having") is not None else ""
    source = f"TABLE({_assigned(step, table, keys)})"
    return f"SELECT\n  {listed}\nFROM {source}\nGROUP BY {', '.join(columns)}{having}"


def _with_aggregates(step: Step) -> str:
    """The condition of results with the aggregates in place of their names, which HAVING of standard SQL does not know."""
    texts = step["aggregates"]

    def text_of(token: re.Match[str]) -> str:
        name = token["quoted"] or token["word"]
        return str(texts[name]) if name in texts and token["call"] is None else token[0]

    return TOKEN.sub(text_of, str(step["having"]))


def _assigned(step: Step, table: str, keys: Sequence[str]) -> str:
    """The call of the function that assigns rows to windows."""
    if "gap" in step:
        name, lengths = "SESSION", [step["gap"]]
        table += f" PARTITION BY {', '.join(keys)}" if keys else ""
    elif "slide" in step:
        name, lengths = "HOP", [step["slide"], step["size"]]
    elif "step" in step:
        name, lengths = "CUMULATE", [step["step"], step["size"]]
    else:
        name, lengths = "TUMBLE", [step["size"]]
    return f"{name}({table}, DESCRIPTOR({identifier(step['time'])}), {', '.join(map(interval, lengths))})"


def _top(step: Step, rows: str, table: str) -> str:
    """A query for the rows whose rank is at most the limit, in each window or of all rows."""
    rank, keys = identifier(str(step.get("rank", "rank"))), [identifier(str(key)) for key in step.get("keys") or ()]
    if "size" in step:
        rows = f"TABLE({_assigned(step, table, ())})"
        keys = ["window_start", "window_end", *keys]
    ways = {str(step["by"]): step.get("order", "descending"), **(step.get("then") or {})}
    order = ", ".join(f"{text}{' DESC' if way == 'descending' else ''}" for text, way in ways.items())
    over = f"OVER ({_partition(keys)}ORDER BY {order})"
    call = f"{str(step.get('ties', 'row_number')).upper()}() {over} AS {rank}"
    hint, name = time_to_live_hint(step.get("ttl"))
    return f"SELECT * FROM (\nSELECT{hint} *, {call}\nFROM {rows}{name})\nWHERE {rank} <= {step['limit']}"


def _dedupe(step: Step, rows: str, table: str) -> str:
    """The first row of each key."""
    time = identifier(step["time"]) if "time" in step else "PROCTIME()"
    over = f"OVER ({_partition([identifier(str(key)) for key in step['keys']])}ORDER BY {time})"
    hint, name = time_to_live_hint(step["within"])
    return f"SELECT{hint} * FROM {rows}{name}\nQUALIFY ROW_NUMBER() {over} = 1"


def _over(step: Step, rows: str, table: str) -> str:
    """Values of the rows before each row of its key."""
    time = identifier(step["time"]) if "time" in step else "PROCTIME()"
    frame = ""
    if "rows" in step:
        frame = f" ROWS BETWEEN {int(step['rows']) - 1} PRECEDING AND CURRENT ROW"
    elif "within" in step:  # its end is exclusive, that of RANGE inclusive
        frame = f" RANGE BETWEEN {interval(step['within'], less=0.001)} PRECEDING AND CURRENT ROW"
    over = f"OVER ({_partition([identifier(str(key)) for key in step['keys']])}ORDER BY {time}{frame})"
    items = "".join(f",\n  {text} {over} AS {identifier(str(name))}" for name, text in step["aggregates"].items())
    hint, name = time_to_live_hint(step.get("ttl"))
    return f"SELECT{hint} *{items}\nFROM {rows}{name}"


def _partition(keys: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(keys)} " if keys else ""


def time_to_live_hint(duration: Any, rows: str = "t") -> tuple[str, str]:
    """The hint with the time for which a step remembers rows, and the alias of these rows in FROM, which the hint names.

    Both are empty for rows that are remembered for ever.
    """
    if duration is None or str(duration) == FOR_EVER:
        return "", ""
    return f" /*+ STATE_TTL({quoted_value(rows.strip('`'))} = {quoted_value(str(duration))}) */", f" AS {rows}"


def interval(duration: Any, less: float = 0) -> str:
    """A duration as an interval. Raises ValueError for an invalid duration."""
    seconds = round(parse_duration(duration).total_seconds() - less, 6)
    for unit, size in (("DAY", 86400), ("HOUR", 3600), ("MINUTE", 60)):
        if seconds and seconds % size == 0:
            return f"INTERVAL '{int(seconds // size)}' {unit}"
    return f"INTERVAL '{seconds:g}' SECOND" if seconds < 1000 else f"INTERVAL '{seconds:.6f}' SECOND".replace("000' ", "' ")


_FORMS: Mapping[str, Callable[[Step, str, str], str]] = {"window": _window, "top": _top, "dedupe": _dedupe, "over": _over}
"""Type of a step → the function that writes its query."""


_LOOKUP_OPTIONS = frozenset({"type", "table", "on", "add", "miss", "several"})


def comments_on(step: Step) -> list[str]:
    """Why a step is written as a table function, although steps of its type have queries."""
    kind = str(step["type"])
    if kind not in (*_FORMS, "join", "lookup", "sequence"):
        return []
    if kind != "lookup":
        return [f"{kind} is a function here: there is no query that says all of its options"]
    others = [str(name) for name in step if name not in _LOOKUP_OPTIONS]
    several = step.get("several", "first")
    others += [f"several: {several}"] if several != "all" else []
    return [f"lookup is a function here: SQL has no words for {', '.join(others)}"] if others else []


def has_watermark(step: Step) -> bool:
    """Whether a step has a query that uses the watermark of a table."""
    return (
        str(step.get("type")) in (*_FORMS, "join", "sequence")
        and isinstance(step.get("time"), str)
        and watermark_of(step) is not None
    )


def watermark_of(step: Step) -> str | None:
    """The clause of CREATE TABLE with the event time of a step and its lateness; None if the lateness is not a constant."""
    try:
        late = interval(step.get("late", "10s"))
    except (ValueError, AttributeError, TypeError):
        return None
    time = identifier(step["time"])
    return f"WATERMARK FOR {time} AS {time} - {late}"
