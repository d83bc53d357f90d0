"""What is remembered of a column's texts is bounded, and changes nothing but the work."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from etl.rules.engine import text_memory as seen
from etl.rules.engine.text_memory import TELLING, Hits, Seen

WORDS = ["a", "bb", "ccc", "", "dddd", "é" * 5, "x" * 30, "y" * 31]


class Counting:
    """Looks at texts: predicate 1 holds for those with an ``a`` or ``b``, predicate 2 for those longer than three bytes."""

    def __init__(self) -> None:
        self.looked = 0

    def __call__(self, array: pa.Array) -> Hits:
        self.looked += len(array)
        found = [wanted(text) for text in array.to_pylist()]
        first = [0]
        for one in found:
            first.append(first[-1] + len(one))
        return Hits(np.array(first), np.array([predicate for one in found for predicate in one], np.int32))


def wanted(text: str | None) -> list[int]:
    return [] if text is None else [1] * ("a" in text or "b" in text) + [2] * (len(text.encode()) > 3)


def held(memory: Seen, texts: list[str | None], look: Counting) -> list[list[int]]:
    array = pa.array(texts, pa.string())
    code, hits = memory.remembered(array, look) or (np.arange(len(texts)), look(array))
    return [hits.predicates[hits.first[n] : hits.first[n + 1]].tolist() if n >= 0 else [] for n in code.tolist()]


def test_a_text_is_looked_at_once() -> None:
    # given
    memory, look = Seen(), Counting()
    texts = [*WORDS, None] * 20

    # when
    found = [held(memory, texts, look) for _ in range(3)]

    # then
    assert found == [[wanted(text) for text in texts]] * 3
    assert look.looked == len(WORDS)


@pytest.mark.parametrize(("texts", "size"), [(4, 1000), (1000, 64), (8, 1000), (3, 33)])
def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch, texts: int, size: int) -> None:
    # given
    monkeypatch.setattr(seen, "MOST_TEXTS", texts)
    monkeypatch.setattr(seen, "MOST_BYTES", size)
    memory, look, chance = Seen(), Counting(), random.Random(texts)

    for _ in range(60):
        batch = [chance.choice([*WORDS, None]) for _ in range(chance.randrange(12))]

        # when
        found = held(memory, batch, look)

        # then
        assert found == [wanted(text) for text in batch]


def test_new_texts_all_the_time_are_not_remembered() -> None:
    # given
    memory, look = Seen(), Counting()

    # when
    for number in range(5):
        held(memory, [f"{number} {n}" for n in range(TELLING)], look)
    held(memory, ["same"] * 50, look)

    # then
    assert look.looked == 5 * TELLING + 50


def test_the_longer_texts_are_new_the_less_often_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    memory, look, tried, numbered = Seen(), Counting(), list[int](), seen.number
    monkeypatch.setattr(seen, "number", lambda *given: tried.append(batch) or numbered(*given))

    # when
    for batch in range(600):
        held(memory, [f"{batch} {n}" for n in range(TELLING)], look)

    # then
    assert tried == [0, 17, 50, 115, 244, 501]


def test_texts_that_begin_to_repeat_are_remembered() -> None:
    # given
    memory, look = Seen(), Counting()
    for batch in range(20):
        held(memory, [f"{batch} {n}" for n in range(TELLING)], look)

    # when
    for _ in range(100):
        found = held(memory, ["same"] * TELLING, look)
    before = look.looked
    again = held(memory, ["same"] * TELLING, look)

    # then
    assert look.looked == before
    assert again == found


def test_few_new_texts_tell_nothing() -> None:
    # given
    memory, look = Seen(), Counting()

    # when
    for number in range(5):
        held(memory, [f"{number} {n}" for n in range(TELLING - 1)], look)
    held(memory, ["same"] * 50, look)

    # then
    assert look.looked == 5 * (TELLING - 1) + 1
