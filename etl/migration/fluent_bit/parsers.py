"""Parsers of Fluent Bit → steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from etl.migration.draft import NoCounterpartError, clean_name
from etl.migration.fluent_bit.configuration import Section
from etl.migration.strptime import java_pattern
from etl.migration.translated import TranslatedSteps
from etl.migration.values import Value

_TYPES = {"integer": "integer", "float": "float", "bool": "boolean", "string": "string", "hex": "string"}

BUILT_IN = {
    "json": (("format", "json"),),
    "docker": (("format", "json"), ("time_key", "time"), ("time_format", "%+")),
    "logfmt": (("format", "logfmt"),),
    "syslog-rfc3164": (
        ("format", "regex"),
        (
            "regex",
            r"^<(?<pri>\d{1,3})>(?<time>\w{3} +\d+ [\d:]+) (?<host>\S+) "
            r"(?<ident>[^\s:\[]+)(?:\[(?<pid>\d+)\])?:? *(?<message>.*)$",
        ),
        ("time_key", "time"),
        ("time_format", "%b %d %H:%M:%S"),
    ),
    "syslog-rfc5424": (
        ("format", "regex"),
        (
            "regex",
            r"^<(?<pri>\d{1,3})>1 (?<time>\S+) (?<host>\S+) (?<ident>\S+) (?<pid>\S+) (?<msgid>\S+) "
            r"(?<extradata>-|(?:\[(?:[^\]\\]|\\.)*\])+) ?(?<message>.*)$",
        ),
        ("time_key", "time"),
        ("time_format", "%+"),
    ),
}
"""Parsers of Fluent Bit's own file that need no more than their format."""


def key_name(text: str) -> str:
    """``$a['b']`` or ``a`` as a field's name."""
    parts = re.findall(r"^\$?([^\[\]$]+)|\['([^']+)'\]", text)
    return clean_name(".".join(one or other for one, other in parts)) if parts else clean_name(text)


def run_parser(parser: Section, key: str, steps: TranslatedSteps, where: Value | None) -> Value | None:
    """Add the steps of a parser; the condition of its success."""
    form = parser.get("format").lower()
    if form == "regex":
        pattern = parser.get("regex").strip()
        pattern = pattern[1:-1] if pattern.startswith("/") and pattern.endswith("/") else pattern
        good = steps.attempt("grok", {"field": key, "patterns": [pattern], "keep_empty_captures": False}, where)
    elif form == "json":
        good = steps.attempt("json", {"field": key, "add_to_root": True}, where)
    elif form in ("logfmt", "ltsv"):
        from etl.migration.ingest.parser_processors import add_pairs
        from etl.migration.ingest.processor import Processor

        options = {"fields": {}, "preset": "logfmt"} if form == "logfmt" else _LTSV
        made = Processor("kv", {"field": key, "value_split": "=", "ignore_failure": True}, steps.draft, where, lambda *_: None)
        add_pairs(made, "", {**options, "fields": {}})
        good = where
    else:
        raise NoCounterpartError(f"a parser of the format {form!r}")
    for pair in parser.get("types").split():
        name, _, type_ = pair.partition(":")
        if kind := _TYPES.get(type_):
            steps.apply(
                "convert", {"field": clean_name(name), "type": kind, "ignore_failure": True, "ignore_missing": True}, good
            )
    if (time := parser.get("time_key")) and (pattern := parser.get("time_format")):
        formats = [java_pattern(pattern)]
        options = {"field": clean_name(time), "formats": formats, "target_field": "@timestamp", "timezone": _zone(parser, steps)}
        parsed = steps.attempt("date", options, good)
        if parser.get("time_keep").lower() not in ("on", "true", "yes"):
            steps.draft.drop([clean_name(time)], steps.draft.keep(parsed))
    return good


_LTSV: Mapping[str, Any] = {"pair_separators": ["\t"], "value_separators": [":"], "quotes": "", "whitespace": "strict"}


def _zone(parser: Section, steps: TranslatedSteps) -> str:
    return steps.timezone if parser.get("time_system_timezone").lower() in ("on", "true") else "UTC"
