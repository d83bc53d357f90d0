"""Hints for options and values of other tools where another name for the option is not enough."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from etl.config.model import OptionPath

Json = Mapping[str, Any]

_FILE = re.compile(r"[/\\]|\.\w+$")
"""A file name."""


def foreign_option_hint(name: str, value: object, options: Mapping[str, Json]) -> str | None:
    """Return what to write instead of an option of another tool; None if no hint applies."""
    if isinstance(value, dict) and (inner := [key for key in value if key in options]):
        return f"write {', '.join(inner)} beside the other options, without {name!r}"
    other_tool = name in ("pipeline", "service", "input", "filter", "output") and "sources" in options
    if other_tool and isinstance(value, dict | list) and "type" not in value:
        return "a pipeline is written with sources, streams and sinks, or with source, steps and sink"
    is_name = isinstance(value, str) and re.fullmatch(r"[\w-]+", value)
    of_steps = name in ("type", "condition", "where", "fields") or (name == "source" and not is_name)
    if "steps" in options and "sources" not in options and of_steps:
        return "a stream has steps, in a list: steps: [{type: …}]"
    if name in ("from", "to", "old", "new") and options.get("fields", {}).get("description", "").startswith("Old names"):
        return "old name and new name are a pair: fields: {message: text}"
    return next((hint for names, identifying, hint in _HINTS if name in names and identifying <= options.keys()), None)


_HINTS = (
    (
        ("if", "when", "where", "condition"),
        {"fields"},
        "a step takes all events; `filter` passes those for which a condition is true",
    ),
    (
        ("time_format", "time_key", "date_format"),
        {"keep_field"},
        "a step `timestamp` after it reads times: {type: timestamp, field: …}",
    ),
    (("types",), {"keep_field"}, "a step `convert` after it gives types: {type: convert, fields: {size: bigint}}"),
    (
        ("interval", "schedule", "cron", "poll_interval"),
        {"follow", "lag"},
        "follow: true reads what is added; run.trigger sets how often",
    ),
    (
        ("join", "with", "stream", "streams", "table", "other", "source", "input", "inputs", "from", "join_with"),
        {"right_time", "shift"},
        "the two sides of a join are the inputs of its stream: {from: [a, b], steps: [{type: join, …}]}",
    ),
    (("order_by", "sort_by"), {"rows", "aggregates"}, "events are in the order of their time; time: names its field"),
    (("acks", "linger.ms", "compression.type", "client.id"), {"properties"}, "options of the client stand in properties: {…: …}"),
)
"""Names; options that identify the component; the hint."""


def nested_option_hint(value: object, path: OptionPath, schema: Json) -> str | None:
    """Return a hint for a value in place of a mapping: `batch: 100` → ``write batch: {max_events: 100}``, with the first option
    that accepts the value."""
    inside: Json = schema.get("properties", {})
    key = f"{path[-1]}: " if isinstance(path[-1], str) else ""
    if "type" in inside:
        return f"write {key}{{type: file, path: {value}}}" if _FILE.search(str(value)) else f"write {key}{{type: …}}"
    forms = {name: (option, *option.get("anyOf", ())) for name, option in inside.items()}
    if (name := next((name for name, some in forms.items() if any(_takes(form, value) for form in some)), None)) is not None:
        return f"write {key}{{{name}: {value}}}"
    return f"options inside are: {', '.join(inside)}" if inside else None


def _takes(schema: Json, value: object) -> bool:
    if isinstance(value, bool):
        return schema.get("type") == "boolean"
    if isinstance(value, int | float):
        return schema.get("type") in ("integer", "number") and value >= schema.get("minimum", value)
    return "pattern" in schema and re.search(schema["pattern"], str(value)) is not None


CHOICES = {
    "earliest": ("beginning", "start", "oldest", "first", "earliest-offset", "smallest"),
    "latest": ("end", "newest", "last", "latest-offset", "largest"),
    "beginning": ("earliest", "start", "oldest", "head", "first"),
    "end": ("latest", "newest", "tail", "last"),
    "dead_letter": ("dlq", "dead_letters", "fail", "error", "reject", "tag"),
    "drop": ("skip", "ignore", "discard", "delete"),
    "keep": ("pass", "continue", "warn"),
    "gzip": ("gz", "gunzip"), "zstd": ("zst", "zstandard"), "json": ("ndjson", "jsonl", "json_lines", "jsonlines"),
}  # fmt: skip
"""Choice → its names in other tools."""
