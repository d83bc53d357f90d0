"""`join`, `over` and `top` give what batch engines compute of the same rows, however the stream is cut into micro-batches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_files import passing_folder
from state.cuts import CUTS, Cut, numbered, on_time, run_in_cuts
from state.lane import Row

from etl.api import OFFSET, SIDE, SIDE_TIME, TIMESTAMP, Schema
from etl.steps.joining.join import Join
from etl.steps.keyed.over import Over
from etl.steps.keyed.top import Top

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Event = dict[str, Any]
"""Of the stream: n, side, user, room, host, t (seconds), x, s."""
Pairs = Counter[tuple[int | None, int | None]]

SIDE_FIELDS: Schema = pa.schema({"user": pa.string(), "room": pa.int32(), "at": TIMESTAMP, "n": pa.int64(), "x": pa.int64()})
FIELDS: Schema = pa.schema(
    {"host": pa.string(), "user": pa.string(), "at": TIMESTAMP, "n": pa.int64(), "x": pa.int64(), "s": pa.string()}
)
SCHEMA = {
    **dict.fromkeys(("n", "side", "t", "room", "x"), pl.Int64),
    **dict.fromkeys(("user", "host", "s"), pl.String),
}
KINDS = ("inner", "left", "right", "full", "semi", "anti")
SIZE = 20
FAR = datetime.fromtimestamp(1e9, UTC)

VALUES: dict[str, Sequence[Any]] = {
    "side": (0, 1),
    "user": ("a", "b", None),
    "room": (0, 1, None),
    "host": ("a", "", None),
    "x": (0, 1, 2, 5, None),
    "s": ("", "p", "q", None),
}
DRAWN = st.lists(
    st.fixed_dictionaries({"t": st.integers(0, 60)} | {name: st.sampled_from(values) for name, values in VALUES.items()}),
    max_size=60,
)
LATE = st.sampled_from([15, 10_000])
"""Seconds; with the second nothing is late, so that results are the same whatever the cuts."""


def stream_of(drawn: Sequence[Event], unique_times: bool = False) -> list[Event]:
    """Events out of order by up to a minute, with numbers."""
    times = [event["t"] + 3 * number for number, event in enumerate(drawn)]
    if unique_times:
        times = [1000 * time + number for number, time in enumerate(times)]
    return [{**event, "t": time, "n": number} for number, (event, time) in enumerate(zip(drawn, times, strict=True))]


def random_stream(seed: int, events: int, unique_times: bool = False) -> list[Event]:
    """The same with more events."""
    chance = random.Random(seed)
    drawn = [
        {"t": chance.randrange(60)} | {name: chance.choice(values) for name, values in VALUES.items()} for _ in range(events)
    ]
    return stream_of(drawn, unique_times)


def frame(events: Sequence[Event]) -> pl.DataFrame:
    """Events for Polars."""
    return pl.DataFrame(list(events), schema=SCHEMA)


def folder() -> Path:
    return passing_folder()


# join


def run_join(step: Join, events: Sequence[Event], cuts: Sequence[Cut]) -> Pairs:
    """The numbers of the events of each pair."""
    rows = []
    for event in events:
        at = datetime.fromtimestamp(event["t"], UTC)
        prefix = ("left.", "right.")[event["side"]]
        fields = {prefix + name: event[name] for name in ("user", "room", "n", "x")}
        rows.append({SIDE: event["side"], SIDE_TIME: at, prefix + "at": at, **fields})
    united = step.united({"l": SIDE_FIELDS, "r": SIDE_FIELDS})
    found, _ = run_in_cuts(step, united, folder(), numbered(rows), cuts, {SIDE_TIME: FAR})
    return Counter((row["n"], row.get("right.n")) for row in found)


def events_on_time(events: Sequence[Event], cuts: Sequence[Cut], late: int) -> list[Event]:
    return on_time(events, cuts, lambda event: event["t"], late)


def matches(
    events: Sequence[Event], before: int, after: int, has_condition: bool
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The pairs of both sides by Polars, the left events and the right ones."""
    lefts, rights = (frame(events).filter(side=side) for side in (0, 1))
    joined = lefts.join(rights, on=["user", "room"], suffix="_right")
    met = (pl.col("t_right") - pl.col("t")).is_between(-before, after)
    if has_condition:
        met &= pl.col("x") > pl.col("x_right")
    return joined.filter(met).select("n", "n_right"), lefts, rights


def joined_by_polars(kind: str, pairs: pl.DataFrame, lefts: pl.DataFrame, rights: pl.DataFrame) -> Pairs:
    left_alone = lefts.join(pairs, on="n", how="anti")["n"].to_list()
    right_alone = rights.join(pairs, left_on="n", right_on="n_right", how="anti")["n"].to_list()
    found: Pairs = Counter()
    if kind in ("inner", "left", "right", "full"):
        found.update(pairs.iter_rows())
    if kind in ("left", "full", "anti"):
        found.update((n, None) for n in left_alone)
    if kind in ("right", "full"):
        found.update((None, n) for n in right_alone)
    if kind == "semi":
        found.update((n, None) for n in lefts.join(pairs, on="n", how="semi")["n"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(DRAWN, CUTS, LATE, st.sampled_from([(0, 0), (30, 30), (0, 40), (50, 0), (5, 90)]), st.booleans())
def test_pairs_are_those_of_polars(
    kind: str, drawn: list[Event], cuts: list[Cut], late: int, bounds: tuple[int, int], has_condition: bool
) -> None:
    (before, after), where = bounds, {"where": "x > right.x"} if has_condition else {}
    step = Join.model_validate(
        {"on": ["user", "room"], "time": "at", "kind": kind, "before": f"{before}s", "after": f"{after}s", "late": f"{late}s"}
        | where
    )
    events = stream_of(drawn)

    found = run_join(step, events, cuts)

    assert found == joined_by_polars(kind, *matches(events_on_time(events, cuts, late), before, after, has_condition))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["inner", "left"])
@settings(max_examples=20, deadline=None)
@given(DRAWN, CUTS, LATE, st.sampled_from([None, 0, 40]), st.booleans())
def test_latest_versions_are_those_of_polars(
    kind: str, drawn: list[Event], cuts: list[Cut], late: int, before: int | None, has_condition: bool
) -> None:
    options = {"before": f"{before}s"} if before is not None else {}
    options |= {"where": "x > right.x"} if has_condition else {}
    step = Join.model_validate(
        {"on": ["user", "room"], "time": "at", "match": "latest", "kind": kind, "late": f"{late}s"} | options
    )
    events = stream_of(drawn)

    found = run_join(step, events, cuts)

    taken = frame(events_on_time(events, cuts, late))
    lefts, rights = taken.filter(side=0), taken.filter(side=1).drop_nulls(["user", "room"])
    versions = lefts.sort("t", "n").join_asof(
        rights.sort("t", "n"), on="t", by=["user", "room"], tolerance=before, check_sortedness=False
    )
    met = pl.col("n_right").is_not_null()
    pairs = versions.filter(met & (pl.col("x") > pl.col("x_right")) if has_condition else met).select("n", "n_right")
    assert found == joined_by_polars(kind, pairs, lefts, rights)


# over

AGGREGATES = {
    "all": "count(*)",
    "big": "count(*) filter (where x > 1)",
    "sum": "sum(x)",
    "avg": "avg(x)",
    "low": "min(x)",
    "high": "max(s)",
    "first": "first(s)",
    "last": "last(x)",
    "before": "lag(s)",
    "third": "lag(x + 1, 3)",
    "kinds": "count(distinct s)",
    "new": "is_new(x)",
}


def event_rows(events: Sequence[Event]) -> list[Row]:
    return numbered(
        [{name: event.get(name) for name in FIELDS.names} | {"at": datetime.fromtimestamp(event["t"], UTC)} for event in events]
    )


def run_over(step: Over, events: Sequence[Event], cuts: Sequence[Cut]) -> list[tuple[Any, ...]]:
    last = {"host": "end", "at": FAR, "n": -1, OFFSET: 10**9}
    found, _ = run_in_cuts(step, FIELDS, folder(), event_rows(events), cuts, last)
    return sorted(tuple(row[name] for name in ("n", *step.aggregates)) for row in found)


def over_by_polars(events: Sequence[Event], within: int | None, rows: int | None, ttl: int | None) -> list[tuple[Any, ...]]:
    """Each event joined with the events of its frame."""
    gap = pl.col("t").diff().over("host").fill_null(0) >= (ttl or 1 << 60)
    known = frame(events).sort("t", "n").with_columns(life=gap.cast(pl.Int64).cum_sum().over("host"))
    known = known.with_columns(place=pl.int_range(pl.len()).over("host", "life"))
    own = known.select("host", "life", "place", "t", "n")
    frames = own.join(known, on=["host", "life"], nulls_equal=True, suffix="_of").filter(pl.col("place_of") <= pl.col("place"))
    if within is not None:
        frames = frames.filter(pl.col("t_of") > pl.col("t") - within)
    if rows is not None:
        frames = frames.filter(pl.col("place_of") > pl.col("place") - rows)
    x, s = pl.col("x"), pl.col("s")
    found = (
        frames.sort("n", "place_of")
        .group_by("n", maintain_order=True)
        .agg(
            pl.len().alias("all"),
            (x > 1).sum().alias("big"),
            pl.when(x.count() > 0).then(x.sum()).alias("sum"),
            x.mean().alias("avg"),
            x.min().alias("low"),
            s.max().alias("high"),
            s.drop_nulls().first().alias("first"),
            x.drop_nulls().last().alias("last"),
            s.shift(1).last().alias("before"),
            (x + 1).shift(3).last().alias("third"),
            s.drop_nulls().n_unique().alias("kinds"),
            pl.when(x.last().is_not_null()).then((x == x.last()).sum() == 1).alias("new"),
        )
    )
    return sorted(found.select("n", *AGGREGATES).iter_rows())


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(DRAWN, CUTS, LATE, st.sampled_from([None, 1, 40]), st.sampled_from([None, 4, 7]), st.sampled_from([None, 20, 60]))
def test_running_values_are_those_of_polars(
    drawn: list[Event], cuts: list[Cut], late: int, within: int | None, rows: int | None, ttl: int | None
) -> None:
    ttl = None if within else ttl
    bounds = {"within": within and f"{within}s", "rows": rows, "ttl": ttl and f"{ttl}s"}
    step = Over.model_validate({"keys": ["host"], "time": "at", "late": f"{late}s", "aggregates": AGGREGATES} | bounds)
    events = stream_of(drawn)

    found = run_over(step, events, cuts)

    assert [row for row in found if row[0] >= 0] == over_by_polars(events_on_time(events, cuts, late), within, rows, ttl)


# top


def run_top(step: Top, events: Sequence[Event], cuts: Sequence[Cut]) -> list[tuple[int, int]]:
    found, _ = run_in_cuts(step, FIELDS, folder(), event_rows(events), cuts, {"at": FAR, "n": -1, OFFSET: 10**9})
    return sorted((row["n"], row["rank"]) for row in found)


def top_by_polars(events: Sequence[Event], limit: int, ties: str, ascending: bool, distinct: bool) -> list[tuple[int, int]]:
    spans = frame(events).drop_nulls("x").with_columns(span=pl.col("t") // SIZE)
    ordered = spans.sort(pl.col("x") if ascending else -pl.col("x"), "t", "n")
    if distinct:
        ordered = ordered.unique(["host", "span", "user"], keep="first", maintain_order=True)
    ranks = {
        "row_number": pl.int_range(1, pl.len() + 1),
        "rank": pl.col("x").rank("min", descending=not ascending),
        "dense_rank": pl.col("x").rank("dense", descending=not ascending),
    }
    ranked = ordered.with_columns(rank=ranks[ties].over("host", "span").cast(pl.Int64)).filter(pl.col("rank") <= limit)
    return sorted(ranked.select("n", "rank").iter_rows())


def in_open_spans(events: Sequence[Event], cuts: Sequence[Cut], late: int) -> list[Event]:
    return on_time(events, cuts, lambda event: event["t"], late, lambda time: time // SIZE * SIZE + SIZE - 1e-6)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(DRAWN, CUTS, LATE, st.integers(1, 3), st.sampled_from(["row_number", "rank", "dense_rank"]), st.booleans(), st.booleans())
def test_the_best_events_are_those_of_polars(
    drawn: list[Event], cuts: list[Cut], late: int, limit: int, ties: str, ascending: bool, distinct: bool
) -> None:
    options = {"limit": limit, "ties": ties, "order": "ascending" if ascending else "descending", "distinct": ["user"] * distinct}
    step = Top.model_validate({"keys": ["host"], "time": "at", "size": f"{SIZE}s", "by": "x", "late": f"{late}s"} | options)
    events = stream_of(drawn)

    found = run_top(step, events, cuts)

    assert found == top_by_polars(in_open_spans(events, cuts, late), limit, ties, ascending, distinct)


# the same rows in Spark's batch operators

DIFFERENT_CUTS = [
    [Cut(1000)],
    [Cut(7, 2, True, True, False), Cut(40, 3, False, False, True), Cut(1)],
    [Cut(23, 1, True, False, True)],
]


@pytest.fixture
def in_spark(spark: SparkSession) -> Callable[[Sequence[Event]], DataFrame]:
    """Makes a table of events, `events`."""

    def make(events: Sequence[Event]) -> DataFrame:
        types = "n long, side long, t long, room long, x long, user string, host string, s string"
        table = spark.createDataFrame([tuple(event[name] for name in SCHEMA) for event in events], types)
        table.createOrReplaceTempView("events")
        return table

    return make


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_those_of_spark(kind: str, spark: SparkSession, in_spark: Callable[[Sequence[Event]], DataFrame]) -> None:
    events = random_stream(KINDS.index(kind), 300)
    in_spark(events)
    words = {"left": "left outer", "right": "right outer", "full": "full outer", "semi": "left semi", "anti": "left anti"}
    numbers = "l.n, null" if kind in ("semi", "anti") else "l.n, r.n"
    expected = spark.sql(
        f"select {numbers} from (select * from events where side = 0) l {words.get(kind, kind)} join "
        "(select * from events where side = 1) r "
        "on l.user = r.user and l.room = r.room and r.t - l.t between -30 and 50 and l.x > r.x"
    )
    options = {"kind": kind, "before": "30s", "after": "50s", "where": "x > right.x", "late": "1h"}
    step = Join.model_validate({"on": ["user", "room"], "time": "at"} | options)

    found = [run_join(step, events, cuts) for cuts in DIFFERENT_CUTS]

    assert found == [Counter(map(tuple, expected.collect()))] * len(DIFFERENT_CUTS)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "spark_frame"),
    [
        ({}, "order by t, n rows between unbounded preceding and current row"),
        ({"rows": 4}, "order by t, n rows between 3 preceding and current row"),
        ({"within": "40000s"}, "order by t range between 39999 preceding and current row"),
    ],
)
def test_running_values_are_those_of_spark(
    options: dict[str, Any], spark_frame: str, spark: SparkSession, in_spark: Callable[[Sequence[Event]], DataFrame]
) -> None:
    events = random_stream(7, 300, unique_times=True)
    in_spark(events)
    whole = f"over (partition by host {spark_frame})"
    in_sql = {name: AGGREGATES[name] for name in ("all", "sum", "avg", "low", "high")} | {
        "big": "count_if(x > 1)",
        "first": "first_value(s, true)",
        "last": "last_value(x, true)",
    }
    columns = [*(f"{text} {whole}" for text in in_sql.values()), f"size(collect_set(s) {whole})"]
    expected = spark.sql(f"select n, {', '.join(columns)} from events")
    chosen = {name: AGGREGATES[name] for name in (*in_sql, "kinds")}
    step = Over.model_validate({"keys": ["host"], "time": "at", "late": "30d", "aggregates": chosen} | options)

    found = [[row for row in run_over(step, events, cuts) if row[0] >= 0] for cuts in DIFFERENT_CUTS]

    assert found == [sorted(map(tuple, expected.collect()))] * len(DIFFERENT_CUTS)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("ties", ["row_number", "rank", "dense_rank"])
def test_the_best_events_are_those_of_spark(
    ties: str, spark: SparkSession, in_spark: Callable[[Sequence[Event]], DataFrame]
) -> None:
    events = random_stream(11, 300)
    in_spark(events)
    order = "x desc, t, n" if ties == "row_number" else "x desc"
    ranked = (
        f"select n, {ties}() over (partition by host, t div {SIZE} order by {order}) as number from events where x is not null"
    )
    expected = spark.sql(f"select n, number from ({ranked}) where number <= 2")
    step = Top.model_validate(
        {"keys": ["host"], "time": "at", "size": f"{SIZE}s", "by": "x", "late": "1h", "limit": 2, "ties": ties}
    )

    found = [run_top(step, events, cuts) for cuts in DIFFERENT_CUTS]

    assert found == [sorted(map(tuple, expected.collect()))] * len(DIFFERENT_CUTS)
