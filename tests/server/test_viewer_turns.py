"""How long each of many viewers waits."""

from __future__ import annotations

import pytest

from etl.server.boards.viewer_turns import MAX_PAUSE_SECONDS, TURNS_PER_SECOND, ViewerTurns


def pauses(turns: ViewerTurns, viewers: dict[str, int]) -> dict[str, float]:
    """The pause of the viewers of each client, once all of them are there."""
    for _ in range(2):
        found = {client: turns.pause(client, (client, number)) for client, count in viewers.items() for number in range(count)}
    return found


@pytest.mark.parametrize(
    ("viewers", "expected"),
    [
        ({"a": 1}, {"a": 0}),
        ({"a": TURNS_PER_SECOND}, {"a": 0}),
        ({"a": 10 * TURNS_PER_SECOND}, {"a": 10}),
        ({"a": 1000 * TURNS_PER_SECOND}, {"a": MAX_PAUSE_SECONDS}),
        ({"a": 2, "b": 2, "many": 8 * (TURNS_PER_SECOND - 4)}, {"a": 1, "b": 1, "many": 8}),
        ({"a": 4 * TURNS_PER_SECOND, "b": 2 * TURNS_PER_SECOND}, {"a": 8, "b": 4}),
        ({str(number): 1 for number in range(3 * TURNS_PER_SECOND)}, {str(number): 3 for number in range(3 * TURNS_PER_SECOND)}),
    ],
    ids=["one", "few", "many", "too-many", "few-beside-many", "two-clients", "many-clients"],
)
def test_each_client_gets_an_equal_share_of_the_turns(viewers: dict[str, int], expected: dict[str, float]) -> None:
    assert pauses(ViewerTurns(), viewers) == pytest.approx(expected)


def test_a_viewer_who_does_not_wait_counts_once() -> None:
    turns = ViewerTurns()
    for _ in range(1000):
        assert turns.pause("hasty", 1) == 0
    assert turns.pause("patient", 2) == 0


def test_those_who_have_gone_take_no_turns() -> None:
    turns = ViewerTurns()
    assert pauses(turns, {"a": 1, "many": 4 * TURNS_PER_SECOND})["many"] > 4
    assert turns.longest_pause == pauses(turns, {"many": 1})["many"]

    for number in range(4 * TURNS_PER_SECOND):
        turns.remove(("many", number))
    turns.remove("unknown")

    assert (turns.pause("a", ("a", 0)), turns.longest_pause) == (0, 0)
