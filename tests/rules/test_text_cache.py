"""The cache of a column's texts is bounded, and the results do not depend on it."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from etl.rules.engine import text_cache
from etl.rules.engine.text_cache import MIN_VALUES, Hits, TextCache

WORDS = ["a", "bb", "ccc", "", "dddd", "é" * 5, "x" * 30, "y" * 31]


class Counting:
    """Looks at texts: predicate 1 holds for those with an ``a`` or ``b``, predicate 2 for those longer than three bytes."""

    def __init__(self) -> None:
        self.looked = 0

    def __call__(self, array: pa.Array) -> Hits:
        self.looked += len(array)
        found = [matching_predicates(text) for text in array.to_pylist()]
        first = [0]
        for one in found:
            first.append(first[-1] + len(one))
        return Hits(np.array(first), np.array([predicate for one in found for predicate in one], np.int32))


def matching_predicates(text: str | None) -> list[int]:
    return [] if text is None else [1] * ("a" in text or "b" in text) + [2] * (len(text.encode()) > 3)


def look_up(memory: TextCache, texts: list[str | None], look: Counting) -> list[list[int]]:
    array = pa.array(texts, pa.string())
    code, hits = memory.look_up(array, look) or (np.arange(len(texts)), look(array))
    return [hits.predicates[hits.first[n] : hits.first[n + 1]].tolist() if n >= 0 else [] for n in code.tolist()]


def test_a_text_is_evaluated_once() -> None:
    # given
    memory, look = TextCache(), Counting()
    texts = [*WORDS, None] * 20

    # when
    found = [look_up(memory, texts, look) for _ in range(3)]

    # then
    assert found == [[matching_predicates(text) for text in texts]] * 3
    assert look.looked == len(WORDS)


@pytest.mark.parametrize(("texts", "size"), [(4, 1000), (1000, 64), (8, 1000), (3, 33)])
def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch, texts: int, size: int) -> None:
    # given
    monkeypatch.setattr(text_cache, "MAX_TEXTS", texts)
    monkeypatch.setattr(text_cache, "MAX_BYTES", size)
    memory, look, chance = TextCache(), Counting(), random.Random(texts)

    for _ in range(60):
        batch = [chance.choice([*WORDS, None]) for _ in range(chance.randrange(12))]

        # when
        found = look_up(memory, batch, look)

        # then
        assert found == [matching_predicates(text) for text in batch]


def test_the_cache_pauses_when_texts_do_not_repeat() -> None:
    # given
    memory, look = TextCache(), Counting()

    # when
    for number in range(5):
        look_up(memory, [f"{number} {n}" for n in range(MIN_VALUES)], look)
    look_up(memory, ["same"] * 50, look)

    # then
    assert look.looked == 5 * MIN_VALUES + 50


def test_pauses_grow_while_texts_do_not_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    memory, look, tried, numbered = TextCache(), Counting(), list[int](), text_cache.number_texts
    monkeypatch.setattr(text_cache, "number_texts", lambda *given: tried.append(batch) or numbered(*given))

    # when
    for batch in range(600):
        look_up(memory, [f"{batch} {n}" for n in range(MIN_VALUES)], look)

    # then
    assert tried == [0, 17, 50, 115, 244, 501]


def test_texts_that_begin_to_repeat_are_cached() -> None:
    # given
    memory, look = TextCache(), Counting()
    for batch in range(20):
        look_up(memory, [f"{batch} {n}" for n in range(MIN_VALUES)], look)

    # when
    for _ in range(100):
        found = look_up(memory, ["same"] * MIN_VALUES, look)
    before = look.looked
    again = look_up(memory, ["same"] * MIN_VALUES, look)

    # then
    assert look.looked == before
    assert again == found


def test_a_small_batch_of_new_texts_starts_no_pause() -> None:
    # given
    memory, look = TextCache(), Counting()

    # when
    for number in range(5):
        look_up(memory, [f"{number} {n}" for n in range(MIN_VALUES - 1)], look)
    look_up(memory, ["same"] * 50, look)

    # then
    assert look.looked == 5 * (MIN_VALUES - 1) + 1
