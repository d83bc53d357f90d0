"""Functions of texts."""

from __future__ import annotations

from etl.expressions.calls import text_calls
from etl.expressions.library.function import LibraryFunction

FUNCTIONS = (
    LibraryFunction(
        "entropy",
        "value: text",
        "double",
        text_calls.entropy,
        "Shannon's entropy of a text's bytes in bits: 0 for equal characters, 4 and more for random names.",
        "entropy('abcd')",
        2.0,
        is_in_spark=True,
    ),
)
