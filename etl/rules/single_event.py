"""One rule on one event, for its tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from etl.events import flatten
from etl.rules.compiled_rules import in_force
from etl.rules.rule import Rule, RuleSet
from etl.rules.taxonomy import Taxonomy

_NOTHING = pa.RecordBatch.from_pydict({"message": pa.nulls(1, pa.string())})
"""An event without fields: a batch has as many events as its columns have values."""


def fires(rule: Rule, event: Mapping[str, Any], taxonomy: Taxonomy) -> bool | str:
    """Whether it does, or why it cannot be told. Objects in the event become dotted fields."""
    try:
        batch = flatten(pa.RecordBatch.from_pylist([dict(event)])) if event else _NOTHING
    except (pa.ArrowException, ValueError) as error:
        return f"the event cannot be read: {error}"
    force = in_force(RuleSet((rule,)), taxonomy, batch.schema)
    if force.problems:
        return force.problems[0].message
    if not force.rules:
        return "the rule is for events of another log source"
    return len(force.engine(batch.schema).run(batch).rule) > 0
