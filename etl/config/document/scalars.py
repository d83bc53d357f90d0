"""Scalars of YAML 1.2's core schema: only ``true`` and ``false`` are booleans; ``no``, ``on`` and dates are text."""

from __future__ import annotations

import re
from typing import Any

import yaml

STANDARD_TAG = "tag:yaml.org,2002:"

_INT = re.compile(r"[-+]?[0-9]+")
_RADIX = re.compile(r"0(?:o(?P<octal>[0-7]+)|x(?P<hex>[0-9a-fA-F]+))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MAX_DIGITS = 300
"""Characters of the longest number; longer digits are text."""


def scalar_value(text: str) -> Any:
    """An unquoted scalar → None, bool, int, float or the text itself."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) > _MAX_DIGITS:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if found := _RADIX.fullmatch(text):
        return int(found["octal"], 8) if found["octal"] else int(found["hex"], 16)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if number - number == 0 else text
    return text


def node_value(node: yaml.Node) -> Any:
    """The value of a scalar node."""
    plain = not getattr(node, "style", None)
    explicit_text = node.tag == f"{STANDARD_TAG}str" and plain and _INT.fullmatch(node.value)
    return scalar_value(node.value) if plain and not explicit_text else node.value


def quote_text(text: str) -> str:
    """The text in quotes, as YAML reads it back."""
    if "'" in text and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return "'" + text.replace("'", "''") + "'"
