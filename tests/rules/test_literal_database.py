"""A database of literals finds in texts what comparing them one by one finds, whichever tables their number selects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.columns.texts import Texts
from etl.rules.search import gram_choice, literal_tables
from etl.rules.search.gram_choice import choose_grams
from etl.rules.search.literal_arrays import LiteralBytes, pack
from etl.rules.search.literal_database import LiteralDatabase, LiteralSearch
from etl.rules.search.literal_tables import LiteralTables, build_tables
from etl.rules.search.literals import ANYWHERE, AT_END, AT_START, FOLD, WHOLE, Literal

FITS = {
    ANYWHERE: lambda text, data: data in text,
    AT_START: lambda text, data: text.startswith(data),
    AT_END: lambda text, data: text.endswith(data),
    WHOLE: lambda text, data: text == data,
}

FEW_LETTERS = "abAB/é€\U0001f600"
"""So few that literals are in texts and share grams; their UTF-8 has one to four bytes."""


def literal(text: str, kind: int, cased: bool) -> Literal:
    data = text.encode()[:20]
    return Literal(0, data if cased else data.translate(FOLD), kind, cased)


LITERALS = st.lists(
    st.builds(literal, st.text(FEW_LETTERS, min_size=1, max_size=20), st.sampled_from(sorted(FITS)), st.booleans()), max_size=40
)
TEXTS = st.lists(st.one_of(st.none(), st.text(FEW_LETTERS, max_size=60)), max_size=12)


def expected(literals: Sequence[Literal], texts: Sequence[str | None]) -> set[tuple[int, int]]:
    """Literal by literal and text by text."""
    found = set()
    for row, text in enumerate(texts):
        if text is not None:
            for number, one in enumerate(literals):
                searched = text.encode() if one.cased else text.encode().translate(FOLD)
                if FITS[one.kind](searched, one.data):
                    found.add((number, row))
    return found


def pairs(search: LiteralSearch | LiteralDatabase, texts: Sequence[str | None]) -> set[tuple[int, int]]:
    found = [
        tuple(pair) for some, count in search.find(Texts.of(pa.array(texts, pa.string()))) for pair in some[:, :count].T.tolist()
    ]
    assert len(found) == len(set(found))
    return set(found)


def mapped(literals: Sequence[Literal]) -> LiteralSearch:
    """A search whose tables went through named arrays, as those of a table file."""
    arrays = pack(literals)
    stored = dict(build_tables(arrays, LiteralBytes.of(arrays), choose_grams(arrays)).sections())
    return LiteralSearch(LiteralTables.read(lambda name: np.frombuffer(stored[name].tobytes(), stored[name].dtype)))


@pytest.mark.slow
@pytest.mark.parametrize("wide_from", [1, 4, 1 << 30])
@pytest.mark.parametrize("few_pairs", [0, 64])
@settings(deadline=None, max_examples=60)  # kernels are compiled at their first call
@given(LITERALS, TEXTS)
def test_a_scan_finds_what_comparing_finds(
    wide_from: int, few_pairs: int, literals: list[Literal], texts: list[str | None]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gram_choice, "WIDE_FROM", wide_from)
        patched.setattr(literal_tables, "FEW_PAIRS", few_pairs)
        matches = expected(literals, texts)

        assert pairs(mapped(literals), texts) == matches
        assert pairs(LiteralDatabase(pack(literals)), texts) == matches


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(LITERALS, TEXTS, st.data())
def test_literals_left_out_are_not_found(literals: list[Literal], texts: list[str | None], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.booleans(), min_size=len(literals), max_size=len(literals)))
    left_out = np.array([out and one.kind == ANYWHERE for out, one in zip(chosen, literals, strict=True)], np.bool_)
    database = LiteralDatabase(pack(literals))
    everything = pairs(database, [*texts, "a"])

    rest = pairs(database.without(left_out), [*texts, "a"])

    assert rest == {(number, row) for number, row in everything if not left_out[number]}


@pytest.mark.parametrize(
    "count",
    [
        gram_choice.WIDE_FROM - 1,
        gram_choice.WIDE_FROM,
        *(pytest.param(count, marks=pytest.mark.slow) for count in (20_000, 60_000)),
    ],
)
def test_many_literals_are_found(count: int) -> None:
    random = np.random.default_rng(count)
    letters = [chr(97 + n) for n in range(20)] + ["é", "€", "Z"]
    words = ["".join(letters[n] for n in random.integers(0, len(letters), random.integers(1, 18))) for _ in range(count)]
    literals = [literal(word, ANYWHERE, bool(n % 2)) for n, word in enumerate(words)]
    texts = [" ".join(words[n] for n in random.integers(0, count, 3)).swapcase() if row % 2 else words[row] for row in range(40)]

    matches = expected(literals, texts)

    assert pairs(mapped(literals), texts) == matches
    assert pairs(LiteralDatabase(pack(literals)), texts) == matches


def test_of_grams_equally_rare_the_one_that_few_literals_have_is_chosen() -> None:
    literals = [literal(f"https://{name}/index.html", ANYWHERE, True) for name in ("alpha", "gamma", "delta", "omega")]

    eight, _, _, _ = choose_grams(pack(literals))

    chosen = [one.data[place : place + 4] for one, place in zip(literals, eight.offsets.tolist(), strict=True)]
    assert len(set(chosen)) == 4
    assert not any(gram in b"https://" or gram in b"/index.html" for gram in chosen)
