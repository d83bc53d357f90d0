"""Java's regular expressions: those that are supported find what Java finds, others are left to Java."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from java_patterns import patterns, texts

from etl.expressions import analyse, compile_expression
from etl.expressions.calls.regex_calls import has_perl_semantics
from etl.expressions.patterns import java_regex
from etl.expressions.patterns.java_characters import NoFormError
from etl.expressions.patterns.rewrites import simplify_end, with_capture
from etl.scanner.engine_choice import choose_engine
from etl.scanner.pattern_error import PatternError

TEXT = pa.schema([("s", pa.string())])


@pytest.mark.parametrize(
    "pattern",
    [
        "(", "a)", "(?:a", "[", "[a", "[b-a]", "*", "a**", "a|+", "{", "a{x}", "a{,3}", "a{2,1}", "a{1", "\\", r"\y", r"[\y]",
        r"[a-\y]", r"\x{110000}", "(?<n>a)(?<n>b)", "(?i)*",
    ],
)  # fmt: skip
def test_patterns_that_java_refuses_are_errors(pattern: str) -> None:
    with pytest.raises(PatternError):
        java_regex.parse(pattern)


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (r"(a)\1", "a back-reference"), (r"(?<n>a)\k<n>", "a back-reference"), (r"\011", "an octal number"), ("(?m)^a", "flags"),
        ("(?x:a )", "flags"), (r"\p{L}", r"\\p{L}"), (r"(?i)\p{Lower}", "Lower"), ("[a[b]]", "a class inside"),
        ("[a-z&&[^b]]", "a class inside"), ("^*a", "a repeated boundary"), ("(?=a)?", "a repeated boundary"),
        ("a{2}{3}", "a count of a count"),
        ("(a|){2}", "a count of what may be empty"), ("(?:a*){0,2}", "a count of what may be empty"),
        ("{1}", "a count of nothing"), (r"\G", r"\\G"), (r"\R", r"\\R"), (r"[\b]", r"\\b"),
        (r"\b{g}", r"\\b"), ("[\x80-\uffff]", "surrogates"), (r"\ud83d\ude00", "half of a character"),
        (r"[a-\d]", "a range that ends"), ("(?#a)", "the group"), ("(" * 101 + ")" * 101, "nested groups"),
        (r"[^é[^ü]]", "a class inside"), (r"[\Hé]", "mix"),
    ],
)  # fmt: skip
def test_constructs_that_only_java_supports_are_named(pattern: str, construct: str) -> None:
    with pytest.raises(NoFormError) as error:
        java_regex.parse(pattern)

    assert construct.replace("\\\\", "\\") in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "group"),
    [
        ("a$", 0), ("(a$)", 1), (r"(\S+)(?=\s|$)", 1), (r"(\s|$)", 1), ("a$|b", 0), ("x(a|b$)", 1), ("(?>ab(?=cd))", 0),
        (r"a(?=b+c)", 0), ("(a)(?=b$)", 1),
    ],
)  # fmt: skip
def test_a_look_ahead_at_the_end_becomes_a_plain_part(pattern: str, group: int) -> None:
    tree = java_regex.parse(pattern).tree

    assert choose_engine(tree).engine != "scanner" or choose_engine(tree).reason
    assert choose_engine(simplify_end(with_capture(tree, group, "x"))) == ("scanner", None)


@pytest.mark.parametrize(
    ("longer", "shorter"),
    [
        ("ab.*", "ab"),
        ("ab+", "ab"),
        ("a(?:b|c)*(?:d?)", "a"),
        ("a|b*", "a|"),
        ("a(?:bc*)", "ab"),
        ("a{2,5}", "a{2}"),
        ("(?>a)b*+", "a"),
    ],
)
def test_optional_parts_at_the_end_are_removed(longer: str, shorter: str) -> None:
    assert simplify_end(java_regex.parse(longer).tree) == simplify_end(java_regex.parse(shorter).tree)


@pytest.mark.parametrize(
    ("pattern", "sure"),
    [
        ("(a)", True), ("(a)?b", True), ("(?:x(a))?b", True), ("(a|bc)+", True), ("(?:(a)|b)", True), ("(a)*?b", True),
        ("(a*)+", False), ("(?:(a)|b)*", False), ("(?>(a)|b)", False), ("(?=(a))", False), ("(a)++", False),
        ("(?:(a)?)*", False),
    ],
)  # fmt: skip
def test_groups_that_java_does_not_reset_are_recognised(pattern: str, sure: bool) -> None:
    assert has_perl_semantics(java_regex.parse(pattern).tree, 1) is sure


def test_only_the_extracted_group_must_have_perl_semantics() -> None:
    assert analyse(r"regexp_extract(s, '(a)((b)|c)*', 1)", TEXT).spark_reason is None
    assert "Java may leave" in (analyse(r"regexp_extract(s, '(a)((b)|c)*', 3)", TEXT).spark_reason or "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (r"s rlike 'a$b'", "'$' before the end in 'a$b' has no Arrow form"),
        (r"s rlike 'a(?=bc)d'", "a look-ahead of more than one character in"),
        (r"s rlike '(?<!ab)c'", "a look-behind of more than one character in"),
        (r"s rlike 'a(?!bc)'", "a look-ahead of more than one character in"),
        (r"s rlike '((a{1,200}){1,200}){1,200}b'", "counted repeats that multiply, or thousands of alternatives in"),
        ("regexp_instr(s, 'a*')", "a pattern that can match nothing"),
        ("regexp_count(s, '(?=a)b')", "regexp_count() with '$' or a look-around"),
        ("regexp_count(s, '^a')", "regexp_count() with '^' or a boundary"),
        ("regexp_replace(s, 'a$', 'b')", "'$' or a look-around"),
        ("regexp_replace(s, 'a++', 'b')", "atomic group or possessive repeat"),
        ("regexp_replace(s, 'a*', 'b')", "a pattern that can match nothing"),
        ("regexp_replace(s, '(a)+', 'b')", "repeats a group"),
        ("regexp_replace(s, '(?:a|)+b', 'b')", "repeats a group or what may be empty"),
    ],
)
def test_unsupported_patterns_are_left_to_spark(text: str, reason: str) -> None:
    analysis = analyse(text, TEXT)

    assert analysis.findings == ()
    assert reason in (analysis.spark_reason or "")


def test_columns_are_ordinary_strings() -> None:
    column = pa.array(["-", "to a b c d e f g h i j", None, "", "to b", "by"])[1:]
    batch = pa.record_batch([column], names=["s"])

    found = compile_expression("regexp_extract(s, 'to (.+)', 1)", TEXT)(batch)

    assert found.failed is None
    assert found.values.to_pylist() == ["a b c d e f g h i j", None, "", "b", ""]
    assert found.values.type == pa.string()


def test_a_search_that_takes_too_long_fails_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from etl.scanner.scanner import Scan, Scanner

    late = Scan({}, np.array([0, -1], np.int32), np.array([False, True]))
    monkeypatch.setattr(Scanner, "scan", lambda scanner, column: late)

    found = compile_expression("s rlike 'a'", TEXT)(pa.record_batch({"s": ["a", "b"]}))

    assert found.failed.to_pylist() == [False, True]
    assert found.reasons.to_pylist() == [None, "a regular expression took more than 0.1 s"]


FORMS = ["s rlike r'{}'", "regexp_extract(s, r'{}', 0)", "regexp_extract(s, r'{}', 1)", "regexp_extract(s, r'{}', 2)",
         "regexp_substr(s, r'{}')", "regexp_instr(s, r'{}')", "regexp_count(s, r'{}')",
         "regexp_replace(s, r'{}', '<$0>')"]  # fmt: skip


@pytest.mark.spark
@settings(
    max_examples=6, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(written=st.lists(patterns, min_size=20, max_size=30, unique=True), values=st.lists(texts, min_size=40, max_size=60))
def test_generated_patterns_find_what_java_finds(
    agree: Callable[..., None], schema: pa.Schema, written: Sequence[str], values: Sequence[str | None]
) -> None:
    tried = [form.format(pattern) for pattern in written for form in FORMS]
    usable = [text for text in tried if (found := analyse(text, schema)).spark_reason is None and not found.findings]

    assert len(usable) > len(tried) / 4
    agree(usable, pa.RecordBatch.from_pylist([{"s": value} for value in values], schema=schema))
