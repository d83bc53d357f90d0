"""Configurations of other tools, given as pipelines: recognised by their first lines."""

from __future__ import annotations

import re

_SIGNS = (
    (re.compile(r"^\s*(?:#.*\n\s*)*(?:input|filter|output)\s*\{", re.MULTILINE), "Logstash"),
    (re.compile(r"^\s*\[(?:INPUT|FILTER|OUTPUT|SERVICE|PARSER)\]", re.MULTILINE), "Fluent Bit"),
    (re.compile(r"^\s*<(?:source|match|filter)\b[^>]*>", re.MULTILINE), "Fluentd"),
    (re.compile(r"^\s*\[(?:sources|transforms|sinks)\.[\w-]+\]", re.MULTILINE), "Vector, in TOML"),
    (re.compile(r"^\s*create\s+(?:temporary\s+)?(?:table|view)\b", re.MULTILINE | re.IGNORECASE), "SQL"),
)


def other_tool(text: str) -> str | None:
    """A hint for a text that is another tool's configuration."""
    tool = next((name for sign, name in _SIGNS if sign.search(text)), None)
    if tool == "SQL":
        return "this looks like SQL; the name of a script ends in .sql"
    return f"this looks like {tool}; a pipeline is YAML: source: {{…}}, steps: [{{…}}, …], sink: {{…}}" if tool else None
