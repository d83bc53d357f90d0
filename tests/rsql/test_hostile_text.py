"""Filter expressions and scripts of any characters are read, or refused with a place; nothing else happens."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.expressions import analyse
from etl.rsql.problems import SourceError
from etl.rsql.rules_file import read_rules_file
from etl.rsql.scripts import convert_script

RULE_PARTS = [
    "(",
    ")",
    "&",
    "|",
    "!",
    ",",
    "'",
    "a",
    "=",
    "int",
    "in",
    "like",
    "isNull",
    "\n",
    " ",
    "#",
    ":",
    "x:",
    "1",
    ";",
    "é",
]
SCRIPT_PARTS = [
    "a",
    "=",
    "'x'",
    "(",
    ")",
    ";",
    "if",
    "else",
    "{",
    "}",
    "lower",
    "rm",
    "==",
    "&",
    "|",
    ",",
    "!",
    "1",
    "-1",
    "+",
    '"',
    "\n",
]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(RULE_PARTS) | st.characters(), max_size=40))
def test_rules(parts: list[str]) -> None:
    text = "".join(parts)

    rules, errors = read_rules_file(text)

    assert all(0 <= error.at <= len(text) for error in errors)
    assert all(rule.where for rule in rules)


FUNCTIONS = [
    *("=", "!=", ">", "<=", "in", "~!in", "like", "!like", "~contains", "regex", "~!regex", "isNull", "ipContains"),
    "&gt;",
]
VALUES = ["1", "-1e9", "1e999", "10.0.0.0/8", "a,b", "'x'", "%", "\\", "`", "''", "(a)", "9" * 400]
PART = st.builds(
    "({},{},{}{})".format,
    st.text(max_size=8) | st.sampled_from(["a", "a.b", "`", "a b", "é"]),
    st.sampled_from(FUNCTIONS),
    st.sampled_from(["", "int,", "double,", "date,", "boolean,", "string,"]),
    st.text(max_size=12) | st.sampled_from(VALUES),
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(PART, min_size=1, max_size=4), st.sampled_from("&|"))
def test_a_rule_without_error_is_a_condition_without_error(parts: list[str], sign: str) -> None:
    rules, _ = read_rules_file(f"!({sign.join(parts)})")

    for rule in rules:
        assert {one.code for one in analyse(rule.where, pa.schema([])).findings} <= {"unknown-field"}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(SCRIPT_PARTS) | st.characters(), max_size=40))
def test_scripts(parts: list[str]) -> None:
    text = "".join(parts)

    error = error_of(text)

    assert error is None or 0 <= error.at <= len(text)


@pytest.mark.slow
def test_long_texts_take_time_for_their_length() -> None:
    quotes = "(a,=," + "x'" * 200_000 + ")"

    assert len(read_rules_file(quotes)[0]) == 1
    assert str(error_of("a=1;" * 10_001)) == "more than 10,000 statements"
    assert str(error_of("a=1;" * 300_000)) == "more than 1 MiB"
    assert str(error_of(f"a={'9' * 5_000};")) == str(error_of(f"a={'9' * 400}.5;")) == "a number has more than 38 characters"


def error_of(text: str) -> SourceError | None:
    """The error of a script, None if it has steps."""
    try:
        steps, _ = convert_script(text)
    except SourceError as error:
        return error
    assert all(step["type"] for step in steps)
    return None
