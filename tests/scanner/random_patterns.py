"""Random patterns and texts for laws of the scanner; patterns mean the same to it and to Python's ``re``."""

from __future__ import annotations

from hypothesis import strategies as st

LETTERS = "abc é€😀\n\0"
"""What patterns and texts are made of: one to four bytes wide."""

LENGTHS = [1, 2, 7, 15, 16, 17, 31, 32, 33, 47]
"""Of runs of one character: around the 16 bytes that kernels look at together."""

_plain = st.sampled_from("abcé€😀")
_classes = st.sampled_from(
    ["[ab]", "[^a]", "[a-c]", "[^aé]", "[é-€]", "[^€-😀]", r"[\0-b]", r"\w", r"\W", r"\d", r"\s", r"\S", ".", ".", r"\x00"]
)
_single = st.one_of(_plain, _classes)
_edges = st.sampled_from(["^", "$", r"\A", r"\b", r"\B"])
_looks = st.sampled_from(
    [
        "(?=c)",
        "(?!a)",
        "(?<=b)",
        r"(?<=\W)",
        r"(?=\W)",
        "(?<![ab])",
        r"(?!\w)",
        "(?=[^b])",
        "(?!b|c)",
        "(?<!a|b)",
        "(?=.)",
        "(?<!.)",
        "(?=$|a)",
    ]
)
_long_looks = st.sampled_from(["(?!ab)", "(?!é)", "(?!a*b)", "(?!(?:b|ca)c)", "(?=ab)", "(?<=ab)", "(?<!é)"])
_repeats = st.sampled_from(["*", "+", "?", "{1,2}", "{2}", "{0,2}", "{2,}", "*?", "+?", "??", "{1,2}?", "{0,3}?"])
_possessive = st.sampled_from(["*+", "++", "?+"])

_loops = st.sampled_from([".*", ".*", ".*?", ".+", ".+?", "[^a]*", r"\S+", r"\W*?", "[^b ]+?", r"\w*"])
_leaves = st.one_of(_single, _single, _single, _loops, _edges, _looks, _long_looks)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        several.map("".join),
        several.map(lambda parts: f"(?:{'|'.join(parts)})"),
        inner.map(lambda part: f"(?P<c>{part})"),
        st.tuples(inner, _repeats).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.tuples(inner, _possessive).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda part: f"(?>{part})"),
    )


def named(pattern: str) -> str:
    """Each capture with a name of its own: ``c0``, ``c1`` …"""
    parts = pattern.split("(?P<c>")
    return parts[0] + "".join(f"(?P<c{n}>{part}" for n, part in enumerate(parts[1:]))


_anything = st.recursive(_leaves, _grown, max_leaves=12)
patterns = _anything.map(named)
uncaptured = _anything.map(lambda pattern: pattern.replace("?P<c>", "?:"))
"""Patterns without captures."""

_flat_atoms = st.tuples(_single, st.sampled_from(["", "", "", "*", "+", "*?", "+?", "{2,}", "{15,17}"]))
_flat_parts = st.one_of(_flat_atoms.map("".join), _flat_atoms.map(lambda atom: f"(?P<c>{''.join(atom)})"), _edges)
flat_patterns = st.lists(_flat_parts, min_size=1, max_size=5).map("".join).map(named)
"""No loop in a loop, so that ``re`` comes to an end on long texts."""

_letters = st.sampled_from(LETTERS)
texts = st.text(alphabet=_letters, max_size=12)
long_texts = st.lists(st.tuples(_letters, st.sampled_from(LENGTHS)), max_size=4).map(
    lambda runs: "".join(letter * length for letter, length in runs)
)
raw_texts = st.lists(
    st.sampled_from([*[letter.encode() for letter in LETTERS], b"\xc0", b"\xc3", b"\xe2", b"\xf0", b"\xff"]), max_size=12
).map(b"".join)
"""Bytes that are not always UTF-8: characters are cut off after their first byte, and bytes stand there that none has."""

wild_texts = st.one_of(st.binary(max_size=20), st.lists(st.sampled_from([b"a", b"\x80", b"\xe2\x82", b"\xc3\xa9"])).map(b"".join))
"""Any bytes."""
