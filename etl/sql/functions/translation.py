"""Nodes of a script's expression → Spark SQL with Flink's meaning: operators and casts become functions where they differ.

The parts of a node are translated before the node. What means the same in Spark and in Flink is left as it is, so that a
converted file reads well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etl.expressions.tree import start
from etl.sql.functions.calls import rewrite_function
from etl.sql.functions.casts import rewrite_cast
from etl.sql.functions.intervals import interval_value, rewrite_comparison
from etl.sql.functions.operators import (
    match_call,
    rewrite_arithmetic,
    rewrite_between,
    rewrite_case,
    rewrite_concatenation,
    rewrite_equality,
    rewrite_escape,
    rewrite_if,
    rewrite_in,
    rewrite_is,
    rewrite_is_distinct,
    rewrite_like,
    rewrite_negative,
)
from etl.sql.functions.special_forms import (
    rewrite_array,
    rewrite_bracket,
    rewrite_bytes,
    rewrite_current_time,
    rewrite_extract,
    rewrite_overlaps,
    rewrite_overlay,
    rewrite_position,
    rewrite_rounding,
    rewrite_row,
    rewrite_substring,
    rewrite_trim,
    rewrite_unicode_text,
)
from etl.sql.statements import ScriptError


def translate(node: Any, written: Any) -> Any:
    """A node whose parts are translated, with Flink's meaning; ``written`` is the node of the script. Raises ScriptError."""
    rewrite = _REWRITES.get(type(node).__name__)
    if type(node).__name__ not in _TAKES_INTERVALS:
        node = _with_interval_values(node, written)
    if rewrite and written.error_messages():
        raise ScriptError("wrong-type", f"{written.sql(dialect='spark')} lacks an argument", start(written))
    found = rewrite(node, written) if rewrite else node
    if found is not node and found.meta.get("start") is None and written.meta.get("start") is not None:
        found.meta["start"] = written.meta["start"]
    return found


def _with_interval_values(node: Any, written: Any) -> Any:
    """The node with values for the intervals that are parts of it."""
    if type(written.parent).__name__ == "Overlaps":
        return node
    for key, value in list(node.args.items()):
        if type(value).__name__ == "Interval":
            node.set(key, interval_value(value))
        elif isinstance(value, list) and any(type(one).__name__ == "Interval" for one in value):
            node.set(key, [interval_value(one) if type(one).__name__ == "Interval" else one for one in value])
    return node


_TAKES_INTERVALS = frozenset({"Add", "Sub", "Mul", "Div", "Overlaps", "Paren", "Interval"})
"""Nodes that read intervals themselves."""

_REWRITES: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": rewrite_arithmetic("add"),
    "Sub": rewrite_arithmetic("subtract"),
    "Mul": rewrite_arithmetic("multiply"),
    "Div": rewrite_arithmetic("divide"),
    "Mod": rewrite_arithmetic("mod"),
    **dict.fromkeys(("LT", "LTE", "GT", "GTE"), rewrite_comparison),
    **dict.fromkeys(("EQ", "NEQ"), rewrite_equality),
    "In": rewrite_in,
    "Neg": rewrite_negative,
    "DPipe": rewrite_concatenation,
    "Case": rewrite_case,
    "If": rewrite_if,
    "Like": rewrite_like,
    "SimilarTo": lambda node, written: node if type(written.parent).__name__ == "Escape" else match_call("flink_similar", node),
    "Escape": rewrite_escape,
    "NullSafeNEQ": lambda node, written: rewrite_is_distinct(node),
    "Between": rewrite_between,
    "Is": rewrite_is,
    "Cast": rewrite_cast,
    "TryCast": rewrite_cast,
    "Trim": rewrite_trim,
    "Substring": rewrite_substring,
    "StrPosition": rewrite_position,
    "Overlay": rewrite_overlay,
    "Extract": rewrite_extract,
    "Floor": rewrite_rounding("floor"),
    "Ceil": rewrite_rounding("ceil"),
    "Overlaps": rewrite_overlaps,
    "Bracket": rewrite_bracket,
    "Array": rewrite_array,
    "Tuple": rewrite_row,
    "HexString": rewrite_bytes,
    "UnicodeString": rewrite_unicode_text,
    "CurrentTimestamp": rewrite_current_time("current_timestamp"),
    "CurrentDate": rewrite_current_time("current_date"),
    "Anonymous": rewrite_function,
}
