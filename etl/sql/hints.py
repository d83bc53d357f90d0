"""Hints of queries: ``/*+ OPTIONS('key' = 'value') */`` behind a table, ``/*+ STATE_TTL('t' = '1 d') */`` after SELECT."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from etl.options import parse_duration
from etl.sql.compiled import CompiledScript
from etl.sql.expressions import call_name
from etl.sql.relation import FOR_EVER, Settings
from etl.sql.settings import flink_duration
from etl.sql.statements import CreateTable, Option, ScriptError, start

_OPTIONS = re.compile(r"\s*OPTIONS\s*\((.*)\)\s*", re.DOTALL | re.IGNORECASE)
_PAIR = re.compile(r"\s*'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'\s*(?:,|$)")
_TUNING = ("broadcast", "shuffle_hash", "shuffle_merge", "nest_loop", "multi_join", "lookup")
"""Hints that choose how Flink computes a join."""


def table_options(comments: Sequence[str] | None, at: int) -> tuple[Option, ...]:
    """The options of a hint behind a table, none without one. Raises ScriptError for one that cannot be read."""
    found = next((one for text in comments or () if (one := _OPTIONS.fullmatch(text))), None)
    if found is None:
        return ()
    rest, options = found[1], []
    while rest.strip():
        pair = _PAIR.match(rest)
        if pair is None:
            hint = "/*+ OPTIONS('scan.startup.mode' = 'earliest-offset') */"
            raise ScriptError("sql-syntax", f"{rest.strip()[:40]!r} is not an option and its value", at, hint)
        name, value = (one.replace("''", "'") for one in pair.groups()[:2])
        options.append(Option(name, value, at, at))
        rest = rest[pair.end() :]
    return tuple(options)


def with_options(table: CreateTable, options: Sequence[Option]) -> CreateTable:
    """The table with these options in place of its own of the same names."""
    names = {one.name for one in options}
    return replace(table, options=(*(one for one in table.options if one.name not in names), *options))


def with_hints(node: Any, settings: Settings, compiled: CompiledScript) -> Settings:
    """The settings of a SELECT with its hints; a warning for those that have no effect. Raises ScriptError."""
    spans = list(_spans(node, compiled))
    if not spans:
        return settings
    longest = max(spans, key=parse_duration)
    if len(set(spans)) > 1:
        message = "STATE_TTL has several times to live, and a step here has one"
        hint = f"{longest}, the longest, is that of all rows"
        compiled.warnings.append(ScriptError("no-effect", message, start(node.args["hint"]), hint))
    return replace(settings, ttl=longest)


def _spans(node: Any, compiled: CompiledScript) -> Iterator[str]:
    from sqlglot import exp

    for one in node.args["hint"].expressions if node.args.get("hint") else ():
        name, at = call_name(one) or str(one.name).lower(), start(one) or start(node)
        if name != "state_ttl" and name not in _TUNING and not isinstance(one, exp.JoinHint):
            message, hint = f"there is no hint {name.upper()}", "STATE_TTL and, behind a table, OPTIONS have an effect"
            compiled.warnings.append(ScriptError("no-effect", message, at, hint))
        for pair in one.expressions if name == "state_ttl" else ():
            if not isinstance(pair, exp.EQ) or not isinstance(pair.expression, exp.Literal):
                raise ScriptError("sql-syntax", "STATE_TTL takes tables and times", at, "/*+ STATE_TTL('t' = '1 d') */")
            first = start(pair) or at
            yield flink_duration(Option("STATE_TTL", pair.expression.name, first, first)) or FOR_EVER
