"""What the documents of other engines show of results before, at and after the close of a window, in our words.

RocketMQ Streams knows three fire modes: 0 drops late events, 1 gives them a window instance of their own, 2 corrects the whole
window. Its SQL, and that of Flink, give results early (`EMIT WITH DELAY … BEFORE WATERMARK`, `early-fire`) and late (`AFTER
WATERMARK`, `late-fire`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from state.lane import Lane, Row
from state.test_time_windows import EPOCH, SCHEMA, event, window


def run_batches(folder: Path, batches: list[list[Row]], **options: Any) -> list[list[tuple[str, float, str, int]]]:
    """For each micro-batch its results: the reason, the window's start and end in seconds, the group, the count."""
    lane = Lane(window(emit_reason="why", **options), SCHEMA, folder)
    return [sorted(_plain(row) for row in lane.run(batch)) for batch in batches]


def _plain(row: Row) -> Any:
    edges = [(row[name] - EPOCH).total_seconds() for name in ("window_start", "window_end")]
    return row["why"], *edges, row["user"], row["n"]


def clicks(*seen: tuple[float, str]) -> list[Row]:
    return [event(number, time, user=user) for number, (time, user) in enumerate(seen)]


LATE_CLICK = [
    clicks((5, "ann"), (20, "bob")),
    clicks((61, "bob")),
    clicks((6, "ann"), (7, "ann")),
    clicks((62, "bob"), (8, "ann")),
]
"""Clicks in a window of a minute, its close, and events of that minute that come afterwards."""


@pytest.mark.parametrize(
    ("emit", "late"),
    [
        ("on_close", [[], []]),
        (["on_close", {"late": {"for": "1h", "as": "separate"}}], [[("late", 0, 60, "ann", 2)], [("late", 0, 60, "ann", 1)]]),
        (["on_close", {"late": {"for": "1h", "as": "corrected"}}], [[("late", 0, 60, "ann", 3)], [("late", 0, 60, "ann", 4)]]),
    ],
    ids=["mode-0", "mode-1", "mode-2"],
)
def test_the_fire_modes_of_rocketmq_streams(tmp_path: Path, emit: Any, late: Any) -> None:
    results = run_batches(tmp_path, LATE_CLICK, size="1m", emit=emit)

    assert results[:2] == [[], [("on_close", 0, 60, "ann", 1), ("on_close", 0, 60, "bob", 1)]]
    assert results[2:] == late


def test_results_each_minute_before_the_watermark(tmp_path: Path) -> None:
    """Clicks a user in ten minutes, given once a minute while the window is open: the last rows are the final ones."""
    minutes = [clicks((5, "ann"), (20, "bob")), clicks((50, "ann"), (65, "ann")), clicks((70, "ann"), (150, "bob"))]

    results = run_batches(tmp_path, [*minutes, clicks((720, "zed"))], size="10m", late="2s", emit=["on_close", {"every": "1m"}])

    assert results[0] == [("every", 0, 600, "ann", 1), ("every", 0, 600, "bob", 1)]
    assert results[1] == [("every", 0, 600, "ann", 3)]
    assert results[2] == [("every", 0, 600, "ann", 4), ("every", 0, 600, "bob", 2)]
    assert results[3][-2:] == [("on_close", 0, 600, "ann", 4), ("on_close", 0, 600, "bob", 2)]


def test_early_results_are_those_of_groups_that_changed_or_of_all(tmp_path: Path) -> None:
    batches = [clicks((1, "ann"), (2, "bob")), clicks((12, "ann")), clicks((23, "bob"))]

    changed, whole = (
        run_batches(tmp_path / groups, batches, size="1m", emit=["on_close", {"every": "10s", "groups": groups}])
        for groups in ("changed", "all")
    )

    assert changed[1:] == [[("every", 0, 60, "ann", 2)], [("every", 0, 60, "bob", 2)]]
    assert whole[1:] == [
        [("every", 0, 60, u, n) for u, n in rows] for rows in ([("ann", 2), ("bob", 1)], [("ann", 2), ("bob", 2)])
    ]


def test_late_results_at_intervals_and_when_the_window_takes_nothing_more(tmp_path: Path) -> None:
    emit = ["on_close", {"late": {"for": "20s", "every": "15s", "as": "separate"}}]
    batches = [clicks((5, "ann"), (61, "bob")), clicks((6, "ann")), clicks((7, "ann"), (76, "bob")), clicks((8, "ann")),
               clicks((81, "bob")), clicks((9, "ann"), (120, "bob"))]  # fmt: skip

    results = run_batches(tmp_path, batches, size="1m", emit=emit)

    late = [[row for row in batch if row[0] == "late"] for batch in results]
    assert late == [[], [], [("late", 0, 60, "ann", 2)], [], [("late", 0, 60, "ann", 1)], []]


def test_cumulating_windows_grow_from_one_start(tmp_path: Path) -> None:
    """Flink's CUMULATE: a result of the hour so far every twenty minutes."""
    times = [60, 1260, 2460, 3500]

    results = run_batches(tmp_path, [clicks(*((time, "ann") for time in times)), clicks((7300, "ann"))], size="1h", step="20m")

    assert [row for batch in results for row in batch] == [
        ("on_close", 0, end, "ann", n) for end, n in ((1200, 1), (2400, 2), (3600, 4))
    ]


def test_several_sizes_say_their_length_by_their_edges(tmp_path: Path) -> None:
    results = run_batches(tmp_path, [clicks((10, "ann"), (70, "ann")), clicks((400, "bob"))], size=["5m", "1m"])

    expected = [("on_close", 0, 60, "ann", 1), ("on_close", 0, 300, "ann", 2), ("on_close", 60, 120, "ann", 1)]
    assert sorted([row for batch in results for row in batch]) == expected


def test_a_repeated_alert_waits_for_its_time_and_a_change(tmp_path: Path) -> None:
    batches = [
        clicks((0, "ann"), (1, "ann")),
        clicks((2, "ann")),
        clicks((1900, "bob")),
        clicks((1901, "ann")),
        clicks((1902, "ann")),
    ]

    results = run_batches(tmp_path, batches, size="1h", emit={"when": "n >= 2", "again_after": "30m"})

    assert results == [[("when", 0, 3600, "ann", 2)], [], [], [("when", 0, 3600, "ann", 4)], []]
