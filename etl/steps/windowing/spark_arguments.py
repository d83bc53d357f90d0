"""Arguments of aggregates that Spark computes: fields that a `set` before the window adds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from etl.aggregates.calls import AggregateCall, TextPart, read_call
from etl.api import Schema, Step, visible
from etl.expressions import analyse, quote_name
from etl.udf.declaration import functions_of, with_functions

if TYPE_CHECKING:
    from etl.steps.window import Window

PREFIX = "_argument_"
"""Of the names of these fields. The rest is a hash of the expression, so that a change of it is a change of the aggregate."""


def with_arguments(step: Window, incoming: Schema) -> tuple[Sequence[Step], Window]:
    """The steps before a window that Spark computes, if there are any, and the window of their fields."""
    computed: dict[str, str] = {}
    aggregates = {name: _rewrite(text, visible(incoming), computed) for name, text in step.aggregates.items()}
    if not computed:
        return (), step
    from etl.steps.keep import Keep
    from etl.steps.set import Set

    needed = [field.name for field in visible(incoming) if field.name in step.needs(incoming)]
    front = [Keep.model_validate({"fields": needed})] if needed else []
    return (*front, Set.model_validate({"fields": computed})), step.model_copy(update={"aggregates": aggregates})


def _rewrite(text: str, incoming: Schema, computed: dict[str, str]) -> str:
    """An aggregate that reads fields instead of what Spark has to compute; these are added to ``computed``."""
    call = read_call(text)
    if not isinstance(call, AggregateCall):
        return text
    where, functions = call.where, functions_of(text)
    changes: list[tuple[TextPart, str]] = []
    for part in call.arguments:
        if _needs_spark(part, incoming):  # computed for the events that meet the filter only, for others it may fail
            value = f"case when ({where.text}\n) then ({part.text}\n) end" if where else part.text
            changes.append((part, _field(with_functions(value, functions), computed)))
    if where and _needs_spark(where, incoming):
        changes.append((where, _field(where.text, computed)))
    for part, name in sorted(changes, key=lambda one: one[0].at, reverse=True):
        text = text[: part.at] + quote_name(name) + text[part.at + len(part.text) :]
    return with_functions(text, functions)


def _needs_spark(part: TextPart, incoming: Schema) -> bool:
    if part.text == "*":
        return False
    found = analyse(part.text, incoming)
    return found.spark_reason is not None and not found.errors


def _field(expression: str, computed: dict[str, str]) -> str:
    name = PREFIX + hashlib.sha256(expression.encode()).hexdigest()[:12]
    computed[name] = expression
    return name
