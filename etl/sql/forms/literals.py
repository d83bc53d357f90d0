"""Names and values as scripts write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

TOKEN = re.compile(
    r"""
    '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.)*"                      # texts
    | `(?P<quoted>[^\W\d]\w*)`(?!\s*[.(]) | `(?:[^`]|``)*`        # names in backticks
    | (?P<word>[^\W\d]\w*)(?P<call>(?=\s*\())?                    # names, those of functions before a bracket
    | [<>=!|&:]+ | [\w.]+ | \S
    """,
    re.VERBOSE | re.DOTALL,
)
"""Tokens of an expression in Spark SQL."""

_WORDS = frozenset(
    """
    select from where group by order having table view insert into values union all and or not in is
    null case when then else end as on join left right full inner cross lateral with create set limit
    offset distinct between like interval date timestamp current_timestamp current_date current_time row
    rows range over partition window user exists cast true false for time
    """.split()  # noqa: SIM905
)
"""Words that need backticks as names."""


def identifier(name: str) -> str:
    """A name of a table or column as SQL writes it."""
    return name if PLAIN_NAME.fullmatch(name) and name.lower() not in _WORDS else "`" + name.replace("`", "``") + "`"


def quoted_value(text: str) -> str:
    """A text as scripts write it."""
    return "'" + text.replace("'", "''") + "'"


def option_text(value: Any) -> str:
    """The text of an option's value: lists and mappings as JSON, which is YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, Mapping | list | tuple) else str(value)


def option_literal(value: Any) -> str:
    """An option's value as an argument of a table function."""
    if isinstance(value, bool):
        return str(value).upper()
    return str(value) if isinstance(value, int | float) else quoted_value(option_text(value))
