"""Generated Java patterns, and texts that distinguish them."""

from __future__ import annotations

from hypothesis import strategies as st

ATOMS = [
    "a", "b", "c", "1", "-", "é", "😀", ".", "[ab]", "[^a]", "[a-c]", "[é-ü]", r"[^\W]", r"[^\S\n]", r"[\s\S]", r"\w", r"\W",
    r"\s", r"\S", r"\d", r"\D", r"\v", r"\h", r"\n", r"\r", r"\.", r"\x{e9}", r"\p{Punct}", "(?i:A)", r"\Qa.\E",
]  # fmt: skip
ASSERTIONS = [
    "^", "$", r"\A", r"\z", r"\Z", "(?=a)", "(?!a)", "(?<=a)", "(?<!b)", r"(?<=\s)", r"(?=\s|$)", "(?<![a-z])", r"(?<=^|\s)",
]  # fmt: skip
"""Assertions of zero width; not ``\\b``, whose meaning beyond ASCII depends on the version of Java."""

QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{0,2}?", "{2,}", "{1,3}+", "{2,}+"]

_part = st.recursive(
    st.sampled_from(ATOMS),
    lambda part: st.one_of(
        st.builds("{}{}".format, part, part),
        st.builds("{}{}{}".format, part, st.sampled_from(ASSERTIONS), part),
        st.builds("{}{})".format, st.sampled_from(["(", "(?:", "(?>", "(?i:", "(?s:"]), part),
        st.builds("{}{}|{})".format, st.sampled_from(["(", "(?:", "(?>"]), part, part | st.just("")),
        st.builds("({}){}".format, part, st.sampled_from(QUANTIFIERS)),
        st.builds("(?:{}){}".format, part, st.sampled_from(QUANTIFIERS)),
        st.builds("{}{}".format, st.sampled_from(ATOMS[:-1]), st.sampled_from(QUANTIFIERS)),
    ),
    max_leaves=6,
)
patterns = st.builds("{}{}{}".format, st.sampled_from(["", "", "", "^"]), _part, st.sampled_from(["", "", "", "$", "|a$"]))

TEXTS = [
    "", "a", "b", "ab", "aab", "baa", "abab", "a b", "1a-", "a.", "A", "é", "éa", "bé", "Ü", "a😀b", "😀", "\n", "a\n", "a\r\n",
    "b\r", "ab\u2028", "a\x85", "bba\nab", "\r\n", "\n\n", "a\u2029\n", "a\t1\v", "\xa0a", None,
]  # fmt: skip

texts = st.sampled_from(TEXTS) | st.text("aabbc1 -.é\n\r\u2028\x85A😀Éüz", max_size=8)
