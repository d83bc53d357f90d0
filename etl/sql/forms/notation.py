"""Steps as table functions, ``TABLE(dedupe(TABLE logs, keys => '[host]', within => '1h'))``: what SQL has no words for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import yaml

from etl.catalogue import Catalogue
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError, start
from etl.sql.table_options.options import option_value


def is_step(call: Any, catalogue: Catalogue) -> bool:
    """Whether a table function is a step."""
    return str(call.name).lower() in catalogue.families["step"]


def step_rows(call: Any, rows_of: Callable[[Sequence[Any]], Relation]) -> Relation:
    """The rows of a step. ``rows_of``: those of its inputs, which are tables and calls. Raises ScriptError."""
    from sqlglot import exp

    inputs = [one for one in call.expressions if not isinstance(one, exp.Kwarg)]
    if not inputs:
        hint = f"TABLE({call.name}(TABLE t, …))"
        raise ScriptError("wrong-arguments", f"{call.name} takes a table", start(call), hint)
    relation = rows_of(inputs)
    options: dict[str, Any] = {"type": str(call.name).lower()}
    starts: dict[tuple[str | int, ...], int] = {}
    for one in call.expressions:
        if isinstance(one, exp.Kwarg):
            name = one.this.name
            options[name] = _value(one.expression)
            starts[name,] = start(one.expression) or start(call)
    step = StepText(options, start(call), starts)
    return relation.then(step, scope=relation.scope.opened(), window=None, is_exact=False)


def _value(node: Any) -> Any:
    from sqlglot import exp

    if isinstance(node, exp.Literal):
        return option_value(node.name) if node.is_string else yaml.safe_load(node.name)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return yaml.safe_load(f"-{node.this.name}")
    raise ScriptError(
        "unsupported-sql", "an option is a text, a number or TRUE", start(node), "lists and mappings are texts in YAML's notation"
    )


def unknown_function(call: Any, catalogue: Catalogue) -> ScriptError:
    """That there is no table function of a name."""
    names = ["tumble", "hop", "cumulate", "session", *catalogue.families["step"]]
    near = get_close_matches(str(call.name).lower(), names, 1)
    hint = f"is {near[0]!r} meant?" if near else "TUMBLE, HOP, CUMULATE, SESSION, or a step of `etl list`"
    return ScriptError("unsupported-sql", f"there is no table function {call.name!r}", start(call), hint)
