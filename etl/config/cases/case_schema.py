"""The JSON Schema of tests, in a pipeline file and in a file of their own."""

from __future__ import annotations

from typing import Any, TypeAlias

from etl.config.cases.case import FILE, NONE, QUIET

Json: TypeAlias = dict[str, Any]


def definitions() -> Json:
    """The definitions of the schema of tests, by name."""
    event: Json = {"description": "The fields of an event; dotted names or nested.", "type": "object"}
    events: Json = {"type": "array", "items": event}
    item: Json = {"anyOf": [{"type": "string"}, event]}
    batch: Json = {"description": "The events of one micro-batch.", "type": "array", "items": item}
    quiet: Json = {
        "description": "A time by the clock in which no events come.",
        "type": "object",
        "properties": {QUIET: {"type": "string", "examples": ["30s"]}},
        "required": [QUIET],
        "additionalProperties": False,
    }
    lines: Json = {"type": "array", "items": {"anyOf": [*item["anyOf"], quiet, batch]}}
    text: Json = {"description": "Lines, as a block of text.", "type": "string"}
    file: Json = {
        "type": "object",
        "properties": {FILE: {"type": "string", "minLength": 1, "description": "A file of lines, beside this file."}},
        "required": [FILE],
        "additionalProperties": False,
    }
    whole = {"type": "string", "enum": [NONE]}, {"type": "integer", "minimum": 0}
    by_source: Json = {"type": "object", "additionalProperties": {"anyOf": [text, lines, file]}, "minProperties": 1}
    by_name: Json = {"type": "object", "additionalProperties": _ref("test_expected")}
    return {
        "test": _test(
            {"description": "What the source reads: lines, or by the names of sources.", "anyOf": [text, lines, by_source]},
            {"description": "What comes out, by stream or sink; of the only sink.", "anyOf": [*whole, events, by_name]},
        ),
        "test_expected": {
            "description": "`none`, how many, all events, or more about them.",
            "anyOf": [*whole, events, _about_events(events)],
        },
        "tests": {
            "description": "Lines in, events out: what `etl test` tries, by name.",
            "type": "object",
            "additionalProperties": _ref("test"),
        },
    }


def _about_events(events: Json) -> Json:
    names: Json = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    properties: Json = {
        "count": {"type": "integer", "minimum": 0, "description": "How many events there are."},
        "events": {"description": "All events; fields that are null may be left out.", **events},
        "fields": {"description": "The only fields of `events` that are compared.", **names},
        "contains": {"description": "Events that are among them, each with these fields and maybe others.", **events},
    }
    return {"type": "object", "properties": properties, "additionalProperties": False, "minProperties": 1}


def _test(given: Json, expected: Json) -> Json:
    properties: Json = {
        "description": {"type": "string", "description": "What it is about."},
        "input": given,
        "expect": expected,
        "dead_letters": {"description": "Rejected events, each with the fields given; none by default.", **_ref("test_expected")},
        "now": {
            "type": "string",
            "description": "The time it is at the begin, for dates without a year and windows without `time`.",
            "examples": ["2026-11-20T12:00Z"],
        },
        "tables": {
            "description": "Rows that stand in for those of tables, by the name of the table.",
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "object"}},
        },
        "drain": {"type": "boolean", "default": True, "description": "Whether all windows are closed after the last event."},
    }
    return {"type": "object", "required": ["input"], "properties": properties, "additionalProperties": False}


def file_schema() -> Json:
    """The schema of a ``*_test.yaml`` file."""
    about = "The pipeline, beside this file; `x.yaml` for `x_test.yaml` by default."
    pipeline: Json = {"type": "string", "minLength": 1, "description": about}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tests of a Sluice pipeline",
        "type": "object",
        "required": ["tests"],
        "properties": {"pipeline": pipeline, "tests": _ref("tests")},
        "additionalProperties": False,
        "$defs": definitions(),
    }


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}
