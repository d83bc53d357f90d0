"""Separators as automata."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.scanner.pattern_error import PatternError
from parsers.pairs.separators import STEP_ENDS, STEP_NONE, compile_separators


def longest(steps: list[list[int]], text: str) -> int:
    """Bytes of the longest separator at the beginning of a text."""
    state, found = 0, 0
    for place, byte in enumerate(text.encode()):
        step = steps[state][byte]
        if step == STEP_NONE:
            break
        if step & STEP_ENDS:
            found = place + 1
        state = step & ~STEP_ENDS
    return found


@pytest.mark.parametrize(
    ("texts", "text", "expected"),
    [
        (["="], "==", 1),
        (["=", "==", "=>"], "==>", 2),
        ([", ", ","], ", x", 2),
        (["→"], "→x", 3),
        (["ab"], "ax", 0),
        (["."], "x", 0),
    ],
)
def test_the_longest_text_counts(texts: list[str], text: str, expected: int) -> None:
    assert longest(compile_separators(texts, None), text) == expected


@pytest.mark.parametrize("character", [*string.printable, "\0", "\x7f", "é", "😀"])
def test_any_character_may_separate(character: str) -> None:
    steps = compile_separators([character], None)

    assert longest(steps, character) == len(character.encode())
    assert all(longest(steps, other) == 0 for other in "aB1;é😀" if other != character)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["-+", r"\s*,\s*", "a|ab|abc", "[^a]b?", "(?:ab){1,3}", r"[é-ü]+\."]), st.text("ab, -éü.", max_size=12))
def test_a_pattern_takes_the_longest_match(pattern: str, text: str) -> None:
    ends = [end for end in range(1, len(text) + 1) if re.fullmatch(pattern, text[:end])]

    assert longest(compile_separators([], pattern), text) == len(text[: max(ends, default=0)].encode())


@pytest.mark.parametrize("pattern", ["", "a*", "(", "^a", r"\b,", "(?=a)b", "(?<name>,)", "a{300}", "%{SPACE}"])
def test_what_is_no_separator(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_separators([], pattern)
