"""The examples that Flink's documents print for windows, their best rows and their joins, and RocketMQ Streams' for results
before and after the watermark: the same rows give the same results, in one micro-batch and in many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from state.lane import Lane, Row

from etl.api import OFFSET, SIDE, SIDE_TIME, TIMESTAMP, Schema
from etl.steps.joining.join import Join
from etl.steps.keyed.top import Top
from etl.steps.window import Window

BID = pa.schema({"bidtime": TIMESTAMP, "price": pa.decimal128(10, 2), "item": pa.string(), "supplier": pa.string()})
BIDS = [("08:05", 4, "C", 1), ("08:07", 2, "A", 1), ("08:09", 5, "D", 2),
        ("08:11", 3, "B", 2), ("08:13", 1, "E", 1), ("08:17", 6, "F", 2)]  # fmt: skip
SESSION_BIDS = [("08:07", 4, "A", 1), ("08:06", 2, "A", 1), ("08:09", 5, "B", 1), ("08:08", 3, "A", 1), ("08:17", 1, "B", 1)]
TOP_BIDS = [("08:05", 4, "A", 1), ("08:06", 4, "C", 2), ("08:07", 2, "G", 1), ("08:08", 2, "B", 3), ("08:09", 5, "D", 4),
            ("08:11", 2, "B", 3), ("08:13", 1, "E", 1), ("08:15", 3, "H", 2), ("08:17", 6, "F", 5)]  # fmt: skip
Bid = tuple[str, int, str, int]
"""Time, price, item, number of the supplier."""
END = ("23:59", 0, "end", 0)
"""Closes all windows; its own one stays open."""


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2020-04-15T{clock}:00+00:00")


def rows_of(bids: Sequence[Bid]) -> list[Row]:
    return [
        {OFFSET: number, "bidtime": at(clock), "price": Decimal(price), "item": item, "supplier": f"supplier{supplier}"}
        for number, (clock, price, item, supplier) in enumerate(bids)
    ]


def cut(rows: list[Row], size: int) -> list[list[Row]]:
    """Micro-batches of this many rows."""
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def windows(bids: Sequence[Bid], folder: Path, batch: int, **options: Any) -> list[tuple[Any, ...]]:
    """Start, end, groups and total of the windows over bids that end before the last one does."""
    known = {"time": "bidtime", "late": "3m", "aggregates": {"total": "sum(price)"}, **options}
    lane = Lane(Window.model_validate(known), BID, folder)
    found = [row for rows in [*cut(rows_of(bids), batch), rows_of([END])] for row in lane.run(rows)]
    groups = known.get("group_by", [])
    return sorted(
        (f"{row['window_start']:%H:%M}", f"{row['window_end']:%H:%M}", *(row[name] for name in groups), float(row["total"]))
        for row in found
    )


@pytest.mark.parametrize("batch", [1, 2, 9])
@pytest.mark.parametrize(
    ("bids", "options", "expected"),
    [
        (BIDS, {"size": "10m"}, [("08:00", "08:10", 11), ("08:10", "08:20", 10)]),
        (
            BIDS,
            {"size": "10m", "slide": "5m"},
            [("08:00", "08:10", 11), ("08:05", "08:15", 15), ("08:10", "08:20", 10), ("08:15", "08:25", 6)],
        ),
        (
            BIDS,
            {"size": "10m", "step": "2m"},
            [("08:00", "08:06", 4), ("08:00", "08:08", 6), ("08:00", "08:10", 11), ("08:10", "08:12", 3),
             ("08:10", "08:14", 4), ("08:10", "08:16", 4), ("08:10", "08:18", 10), ("08:10", "08:20", 10)],
        ),
        (
            BIDS,
            {"size": "10m", "group_by": ["supplier"]},
            [("08:00", "08:10", "supplier1", 6), ("08:00", "08:10", "supplier2", 5),
             ("08:10", "08:20", "supplier1", 1), ("08:10", "08:20", "supplier2", 9)],
        ),
        (
            SESSION_BIDS,
            {"gap": "5m", "group_by": ["item"]},
            [("08:06", "08:13", "A", 9), ("08:09", "08:14", "B", 5), ("08:17", "08:22", "B", 1)],
        ),
        (SESSION_BIDS, {"gap": "5m"}, [("08:06", "08:14", 14), ("08:17", "08:22", 1)]),
    ],
    ids=["tumble", "hop", "cumulate", "by-supplier", "session-of-item", "session"],
)  # fmt: skip
def test_windows_of_flinks_documents(tmp_path: Path, bids: list[Bid], options: Any, expected: Any, batch: int) -> None:
    assert windows(bids, tmp_path, batch, **options) == expected


def test_windows_over_windows(tmp_path: Path) -> None:
    """Flink's cascade: totals of five minutes for each supplier, and of those totals of ten minutes."""
    five = windows(BIDS, tmp_path / "five", 9, size="5m", group_by=["supplier"])
    totals = [(start, int(total), "", 1) for start, _, _, total in five]

    assert windows(totals, tmp_path / "ten", 9, size="10m") == [("08:00", "08:10", 11), ("08:10", "08:20", 10)]


def best(rows: list[Row], fields: Schema, folder: Path, **options: Any) -> list[Row]:
    """The three best rows of ten minutes."""
    lane = Lane(Top.model_validate({"limit": 3, "size": "10m", "late": "0s", "rank": "rownum", **options}), fields, folder)
    return sorted(lane.run(rows) + lane.run([{**rows[-1], options["time"]: at("23:59")}]), key=lambda row: row[options["time"]])


def test_the_best_suppliers_of_each_window(tmp_path: Path) -> None:
    lane = Lane(
        Window.model_validate({"time": "bidtime", "size": "10m", "late": "0s", "group_by": ["supplier"],
                               "aggregates": {"total": "sum(price)", "cnt": "count(*)"}}),
        BID,
        tmp_path / "window",
    )  # fmt: skip
    totals = [{**row, OFFSET: number} for number, row in enumerate(lane.run(rows_of(TOP_BIDS)) + lane.run(rows_of([END])))]
    fields = lane.step.fields(BID)

    found = best(totals, fields, tmp_path / "top", time="window_start", keys=[], by="total")

    ranked = sorted((f"{row['window_start']:%H:%M}", row["rownum"], row["supplier"], float(row["total"])) for row in found)
    assert ranked == [
        ("08:00", 1, "supplier1", 6), ("08:00", 2, "supplier4", 5), ("08:00", 3, "supplier2", 4),
        ("08:10", 1, "supplier5", 6), ("08:10", 2, "supplier2", 3), ("08:10", 3, "supplier3", 2),
    ]  # fmt: skip


def test_the_best_items_of_each_window(tmp_path: Path) -> None:
    found = best(rows_of(TOP_BIDS), BID, tmp_path, time="bidtime", keys=[], by="price")

    assert [(f"{row['bidtime']:%H:%M}", row["item"], row["rownum"]) for row in found] == [
        ("08:05", "A", 2), ("08:06", "C", 3), ("08:09", "D", 1), ("08:11", "B", 3), ("08:15", "H", 2), ("08:17", "F", 1),
    ]  # fmt: skip


LEFT = [("12:02", 1, "L1"), ("12:06", 2, "L2"), ("12:03", 3, "L3")]
RIGHT = [("12:01", 2, "R2"), ("12:04", 3, "R3"), ("12:05", 4, "R4")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", {("L3", "R3")}),
        ("left", {("L1", None), ("L2", None), ("L3", "R3")}),
        ("right", {("L3", "R3"), (None, "R2"), (None, "R4")}),
        ("full", {("L1", None), ("L2", None), ("L3", "R3"), (None, "R2"), (None, "R4")}),
        ("semi", {("L3", None)}),
        ("anti", {("L1", None), ("L2", None)}),
    ],
)
def test_window_joins_of_flinks_documents(tmp_path: Path, kind: str, expected: set[tuple[str | None, str | None]]) -> None:
    """Rows are of one window of five minutes if their windows have the same start."""
    side = pa.schema({"start": TIMESTAMP, "num": pa.int64(), "id": pa.string()})
    step = Join.model_validate({"on": ["num"], "time": "start", "within": "0s", "late": "0s", "kind": kind})
    lane = Lane(step, step.united({"left": side, "right": side}), tmp_path)
    rows = []
    for number, (prefix, table) in enumerate((("left.", LEFT), ("right.", RIGHT))):
        for clock, num, name in table:
            start = at(clock) - timedelta(minutes=at(clock).minute % 5)
            fields = {"start": start, "num": num, "id": name}
            rows.append({OFFSET: len(rows), SIDE: number, SIDE_TIME: start} | {prefix + to: fields[to] for to in fields})

    found = lane.run(*([row] for row in rows)) + lane.run([{SIDE_TIME: at("23:59")}])

    assert Counter((row["id"], row.get("right.id")) for row in found) == Counter(expected)


def test_results_of_an_hour_each_minute_before_its_end_and_corrected_ones_after_it(tmp_path: Path) -> None:
    """`EMIT WITH DELAY '1' MINUTE BEFORE WATERMARK, WITH DELAY '5' SECOND AFTER WATERMARK`: early results of each minute with a
    change, and after the end one of all late events of five seconds."""
    emit = ["on_close", {"every": "1m"}, {"late": {"for": "1h", "every": "5s", "as": "corrected"}}]
    options = {"time": "bidtime", "size": "1h", "late": "0s", "emit": emit, "emit_reason": "why", "aggregates": {"n": "count(*)"}}
    lane = Lane(Window.model_validate(options), BID, tmp_path)
    clocks = [("08:05:00",), ("08:05:30",), ("08:06:00",), ("09:00:01",), ("08:59:00", "08:59:30"), ("09:00:03",), ("09:00:06",)]

    found = []
    for number, times in enumerate(clocks):
        row = {"price": Decimal(1), "item": "a", "supplier": "s"}
        batch = lane.run(
            [{OFFSET: number, "bidtime": datetime.fromisoformat(f"2020-04-15T{clock}+00:00"), **row} for clock in times]
        )
        found.append([(one["why"], one["n"]) for one in batch if one["window_start"] == at("08:00")])

    assert found == [[("every", 1)], [], [("every", 3)], [("on_close", 3)], [], [], [("late", 5)]]
