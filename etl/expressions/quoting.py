"""Names and texts as Spark SQL writes them."""

from __future__ import annotations

from functools import lru_cache


def quoted(field: str) -> str:
    """A field as an expression names it: dotted names in backticks part by part where they are not plain words."""
    return ".".join(
        part
        if part.isidentifier() and part.isascii() and part.lower() not in _reserved_words()
        else f"`{part.replace('`', '``')}`"
        for part in field.split(".")
    )


@lru_cache(maxsize=1)
def _reserved_words() -> frozenset[str]:
    """Words, in lower case, that an expression does not read as a field: keywords, and names that Spark gives a value."""
    from sqlglot.dialects.spark import Spark
    from sqlglot.parsers.spark import SparkParser

    no_names = {token for token in Spark.Tokenizer.KEYWORDS.values() if token not in SparkParser.ID_VAR_TOKENS}
    no_names |= {*SparkParser.STATEMENT_PARSERS, *Spark.Tokenizer.COMMANDS}
    words = (word.lower() for word, token in Spark.Tokenizer.KEYWORDS.items() if token in no_names)
    functions = (name.lower() for name in SparkParser.NO_PAREN_FUNCTION_PARSERS)
    return (
        frozenset(words)
        | frozenset(functions)
        | {
            "if",
            "in",
            "all",
            "null",
            "user",
            "current_user",
            "current_date",
            "current_timestamp",
            "date",
            "timestamp",
            "interval",
            "end",
        }
    )


def quoted_text(text: str) -> str:
    """A text as Spark SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
