"""Names of fields as expressions write them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from etl.expressions import analyse
from etl.expressions.quoting import quoted

WORDS = sorted(
    {
        word.lower()
        for names in (Spark.Tokenizer.KEYWORDS, SparkParser.FUNCTIONS, SparkParser.NO_PAREN_FUNCTION_PARSERS, ["if", "all"])
        for word in names
        if word.isidentifier()
    }
)
"""What SQL may read as something else than a name."""


@pytest.mark.slow
def test_every_word_can_be_a_field() -> None:
    forms = ("{} = ''", "not {} = 'a'", "lower({})", "case when {} is null then {} end")
    refused = [
        (word, form)
        for word in WORDS
        for form in forms
        if analyse(form.replace("{}", quoted(word)), pa.schema([(word, pa.string())])).findings
    ]

    assert len(WORDS) > 300
    assert refused == []


@pytest.mark.parametrize("word", ["comment", "load", "use", "update", "delete", "set", "cache", "merge"])
@pytest.mark.parametrize("form", ["{} = 'x'", "{} is null", "{} in ('a', 'b')", "{} || 'x'", "{}"])
def test_a_word_that_begins_statements_may_be_a_field_without_quotes(word: str, form: str) -> None:
    assert analyse(form.replace("{}", word), pa.schema([(word, pa.string())])).findings == ()
