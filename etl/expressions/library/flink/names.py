"""Names of Flink's functions in scripts: those with Spark's meaning, and those that do not exist here."""

from __future__ import annotations

from collections.abc import Mapping

SAME_AS_SPARK: Mapping[str, str] = {}
"""Name in scripts → Spark's function with the same meaning for all values."""

NOT_HERE: Mapping[str, str] = {}
"""Name → why the function does not exist here."""
