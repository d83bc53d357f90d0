"""The normal form of a state's atomic groups: the remaining threads, and the numbers of their scopes."""

from __future__ import annotations

import pytest

from etl.scanner.automata.closure import Thread
from etl.scanner.scopes import normalise

INSIDE, LEFT = 0, 1


def scope(entry: int, marked: int = INSIDE) -> int:
    return entry * 2 | marked


MATCHED = Thread(-1)
A, B, C = 10, 20, 30
"""Instructions of a program."""


@pytest.mark.parametrize(
    ("threads", "kept"),
    [
        ([Thread(A), Thread(B)], [(0, Thread(A)), (1, Thread(B))]),
        # numbered anew, in the order of the threads
        (
            [Thread(A, (scope(70),)), Thread(B, (scope(5), scope(6)))],
            [(0, Thread(A, (scope(0),))), (1, Thread(B, (scope(1), scope(2))))],
        ),
        # an entry that all have left binds nobody; then threads may be equal
        ([Thread(A, (scope(7, LEFT),)), Thread(A)], [(0, Thread(A))]),
        # as long as one is inside, those who left stay marked
        (
            [Thread(A, (scope(7),)), Thread(B, (scope(7, LEFT),))],
            [(0, Thread(A, (scope(0),))), (1, Thread(B, (scope(0, LEFT),)))],
        ),
        # of two entries at the same places the less preferred is forgotten
        ([Thread(A, (scope(1),)), Thread(A, (scope(2),)), Thread(B)], [(0, Thread(A, (scope(0),))), (2, Thread(B))]),
        # not of two whose threads stand at different places
        (
            [Thread(A, (scope(1),)), Thread(A, (scope(2),)), Thread(B, (scope(2),))],
            [(0, Thread(A, (scope(0),))), (1, Thread(A, (scope(1),))), (2, Thread(B, (scope(1),)))],
        ),
        # nothing less preferred lives after a match, but for one that may still be taken back
        ([Thread(A), MATCHED, Thread(B)], [(0, Thread(A)), (1, MATCHED)]),
        (
            [Thread(A, (scope(3),)), Thread(-1, (scope(3, LEFT),)), Thread(B)],
            [(0, Thread(A, (scope(0),))), (1, Thread(-1, (scope(0, LEFT),))), (2, Thread(B))],
        ),
    ],
)
def test_normalise(threads: list[Thread], kept: list[tuple[int, Thread]]) -> None:
    assert normalise(threads) == kept
