"""A rewritten pattern on RE2 finds what the pattern as written finds by backtracking."""

from __future__ import annotations

import pyarrow as pa
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.grok import Grok
from parsers.pattern_parser import PatternParser
from parsers.regex import Regex
from parsers.regex_engine import Program
from parsers.regex_text import group_name, regex_text

PATTERNS = [
    "%{IPORHOST:x} %{WORD:y}",
    "%{IP:x}",
    "%{NUMBER:x}(?:-|%{IPV4:y}) ",
    "x=%{NUMBER:x}%{GREEDYDATA:y}",
    "%{HOSTNAME:x}(?: |$)",
    "%{TIME:x}%{GREEDYDATA:y}",
    "(?:-|%{HTTPDUSER:x}) %{BASE16NUM:y}",
    "(?<x>a(?!b)|.)(?<y>1*)",
    "(?<![0-9a])(?<x>[0-9]+(?:b|a(?!1)))",
    "(?>1+|a)(?<x>[:.])",
    "%{QS:x} ?%{INT:y}",
    "\\b(?<x>a+)\\b",
]
TEXTS = st.text(alphabet='01259abx=:. -"\\@\n', max_size=24)


def as_written(program: Program, text: str) -> list[str | None] | None:
    found = regex.search(regex_text(program.tree, backtracking=True), text, regex.VERSION1 | regex.ASCII)
    return [found[group_name(n)] or None for n in range(len(program.captures))] if found else None


def program_of(parser: PatternParser) -> Program:
    program = next(parser.programs())
    assert isinstance(program, Program)
    return program


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=8))
def test_fast_forms_equal_the_pattern(pattern: str, texts: list[str]) -> None:
    parser = Grok(patterns=[pattern])
    program = program_of(parser)
    fields = list(dict.fromkeys(capture.field for capture in program.captures))

    parsed = parser.compile()(pa.array(texts))

    assert parsed.failed is not None
    for row, text in enumerate(texts):
        wanted = as_written(program, text)
        assert parsed.failed[row].as_py() is (wanted is None), text
        if wanted is not None:
            values = {
                f: next((v for c, v in zip(program.captures, wanted, strict=True) if c.field == f and v), None) for f in fields
            }
            assert {f: parsed.columns[f][row].as_py() for f in fields} == values, text


def test_a_pattern_at_line_starts_is_searched_for_only_in_texts_of_several_lines() -> None:
    parser = Regex(patterns=[r"^(?<word>[a-z]+) (?<number>[0-9]{1,20})$"])
    texts = pa.array(["ab 12", "x ab 12", "X\nab 12", "X\nY", None, "\n", "ab " + "1" * 21, "ab 1\n" + "c " + "1" * 20])

    parsed = parser.compile()(texts)

    assert parsed.columns["word"].to_pylist() == ["ab", None, "ab", None, None, None, None, "ab"]
    assert parsed.failed.to_pylist() == [False, True, False, True, True, True, True, False]
    assert next(program for program in parser.programs() if isinstance(program, Program)).at_line_start
