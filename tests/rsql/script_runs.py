"""Scripts run over one message: the records that they leave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from messages import batch_of

from etl.api import ArrowStep
from etl.catalogue import installed
from etl.rsql.scripts import convert_script


def flat(message: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The fields of a message as events have them: members of objects have dotted names."""
    found: dict[str, Any] = {}
    for name, value in message.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def run_script(script: str, message: Mapping[str, Any], declared: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The records after a script; fields that are null are left out. ``declared``: the option ``fields`` of the step."""
    batch = batch_of(flat(message))
    steps, _ = convert_script(script, {field.name: field.type for field in batch.schema if field.name != "_"}, declared)
    batch = batch.append_column("_offset", pa.array([0])).append_column("kept", pa.array([True]))
    incoming = batch.schema
    for options in steps:
        step = installed().families["step"][options["type"]].model_validate(options)
        assert isinstance(step, ArrowStep)
        findings = [one for one in step.check(incoming) if one.severity == "error"]
        assert not findings, findings
        outcome = step.open(incoming)(batch)
        assert not outcome.rejects, outcome.rejects
        incoming, batch = step.fields(incoming), outcome.events
    rows = batch.to_pylist()
    return [
        {name: value for name, value in row.items() if not name.startswith(("_", "kept")) and value is not None} for row in rows
    ]


def as_json(value: Any) -> Any:
    """The value of a JSON text of an object or array, else the value itself."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def types_after(script: str, message: Mapping[str, Any]) -> pa.Schema:
    """The fields that a script leaves; an assertion fails for steps with errors. Nothing is computed."""
    batch = batch_of(flat(message))
    steps, _ = convert_script(script, {field.name: field.type for field in batch.schema if field.name != "_"})
    schema = batch.schema
    for options in steps:
        step = installed().families["step"][options["type"]].model_validate(options)
        assert not [one for one in step.check(schema) if one.severity == "error"]
        schema = step.fields(schema)
    return schema
