"""Names of Flink's functions in scripts: those with Spark's meaning, and those that do not exist here."""

from __future__ import annotations

from collections.abc import Mapping

_SAME = (
    "upper",
    "lower",
    "char_length",
    "character_length",
    "trim",
    "concat",
    "concat_ws",
    "coalesce",
    "ifnull",
    "nullif",
    "if",
    "sqrt",
    "power",
    "exp",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "degrees",
    "radians",
    "pi",
    "e",
    "hex",
    "md5",
    "sha1",
    "current_database",
)

SAME_AS_SPARK: Mapping[str, str] = {name: name for name in _SAME}
"""Name in scripts → Spark's function with the same meaning for all values."""

UNSUPPORTED: Mapping[str, str] = {
    "current_watermark": "an expression sees one event, not the stream's watermark",
    "source_watermark": "WATERMARK FOR column AS column - INTERVAL … says it",
    "call": "a function is called by its name",
}
"""Name → why the function does not exist here."""
