"""A segment over one split: counts, fan-out, rejects, heartbeats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from etl.api import (
    IDENTITY,
    OFFSET,
    TIMESTAMP,
    ArrowStep,
    Batching,
    CountingOperator,
    Outcome,
    Rejects,
    Result,
    Schema,
    Sink,
    SplitMeasures,
    Staged,
    Task,
    with_columns,
    with_fields,
)
from etl.columns import texts
from etl.columns.texts import filter_batch, materialize_array
from etl.delivery.dead_letters import SCHEMA
from etl.plan.frames import Exchange
from etl.plan.segments import Branch, Output, Segment, StepNode, Watermark
from etl.receipts import Receipt, RejectCount
from etl.segment.event_time import EventTime
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.spark.reports.totals import Totals

FIELDS = pa.schema([("n", pa.int64())])
WRITTEN: dict[str, list[pa.RecordBatch]] = {}


def split_context(folder: Path) -> SplitContext:
    return SplitContext(
        pipeline="p",
        source="src",
        partition="part-0",
        split="src-0",
        order=0,
        staging_folder=lambda sink: str(folder / sink),
    )


class Keep(ArrowStep):
    """Keep events above a number; below zero they are rejected."""

    type: str = "keep_above"
    above: int = 0

    def fields(self, incoming: Schema) -> Schema:
        return incoming

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        def run(batch: pa.RecordBatch) -> Outcome:
            bad = pc.less(batch.column("n"), 0)
            rejects = (Rejects(batch.filter(bad), "negative", "below zero"),) if bad.true_count else ()
            return Outcome(batch.filter(pc.greater(batch.column("n"), self.above)), rejects)

        return run


class Copies(ArrowStep):
    """As many events as the number says, none of less than nothing."""

    type: str = "copies"

    def fields(self, incoming: Schema) -> Schema:
        return incoming

    def may_multiply_events(self) -> bool:
        return True

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        def run(batch: pa.RecordBatch) -> Outcome:
            rows = [row for row, n in enumerate(batch.column("n").to_pylist()) for _ in range(n)]
            bad = pc.less(batch.column("n"), 0)
            rejects = (Rejects(batch.filter(bad), "negative", "below zero"),) if bad.true_count else ()
            return Outcome(batch.take(pa.array(rows, pa.int64())), rejects)

        return run


class Clock(ArrowStep):
    """Make a time of the number."""

    type: str = "clock"

    def fields(self, incoming: Schema) -> Schema:
        return with_fields(incoming, {"t": TIMESTAMP})

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        return lambda batch: Outcome(with_columns(batch, {"t": batch.column("n").cast(TIMESTAMP)}))


class Memory(Sink):
    """Keep batches under the sink's name."""

    type: str = "memory"

    def open(self, task: Task) -> MemoryWriter:
        return MemoryWriter(WRITTEN.setdefault(task.sink, []))


class MemoryWriter:
    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.batches = batches

    def sizes(self, batch: pa.RecordBatch) -> None:
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        self.batches.append(batch)
        return Result()

    def close(self) -> Staged:
        return Staged("memory", 0, sum(batch.num_rows for batch in self.batches))

    def abort(self) -> None:
        self.batches.clear()


@pytest.fixture(autouse=True)
def _empty() -> None:
    WRITTEN.clear()


def numbers(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64()), OFFSET: list(range(len(values)))})


def node(step: ArrowStep, incoming: Schema = FIELDS, **options: object) -> StepNode:
    return StepNode(f"s[0] {step.type}", step, incoming, step.fields(incoming), **options)


def run(root: Branch, tmp_path: Path, *batches: object, **options: object) -> tuple[SegmentRun, Segment, list[pa.RecordBatch]]:
    outputs = {name: Output(name, Memory(), FIELDS) for part in root.walk() for name in part.sinks}
    segment = Segment({"src": root}, outputs, {"src": True})
    context = split_context(tmp_path)
    running = SegmentRun(segment, "src", context, Output("dead_letters", Memory(), SCHEMA), exchanges(**options))
    return running, segment, [batch for _, batch in running.process(batches)]


def exchanges(emits: Schema | None = None, watermark: Watermark | None = None) -> dict[int, Exchange]:
    return {} if emits is None else {0: Exchange(emits, watermark)}


def written(name: str, column: str = "n") -> list[object]:
    return [value for batch in WRITTEN.get(name, []) for value in batch.column(column).to_pylist()]


def test_every_event_is_counted(tmp_path: Path) -> None:
    root = Branch((node(Keep(above=3)),), FIELDS, ("out",))

    running, segment, emitted = run(root, tmp_path, numbers(1, 5, -1), numbers(7, 8))

    totals = Totals()
    totals.add("q", segment, [running.receipt], emits=False)
    sink = totals.sinks["out"]
    assert emitted == []
    assert written("out") == [5, 7, 8]
    assert (sink.incoming, sink.accepted, sink.filtered, sink.dead) == (5, 3, 1, 1)
    assert sink.is_balanced
    assert totals.dead == 1


def test_events_that_a_step_adds_do_not_reduce_the_filtered_count(tmp_path: Path) -> None:
    root = Branch((node(Copies()), node(Keep(above=1))), FIELDS, ("out",))

    running, segment, _ = run(root, tmp_path, numbers(0, 1, 3), numbers(0, 0), numbers(2))

    totals = Totals()
    totals.add("q", segment, [running.receipt], emits=False)
    sink = totals.sinks["out"]
    assert written("out") == [3, 3, 3, 2, 2]
    assert (sink.incoming, sink.made, sink.accepted, sink.filtered) == (6, 3, 5, 4)
    assert sink.is_balanced


def test_added_events_are_counted_once(tmp_path: Path) -> None:
    root = Branch((node(Copies()), node(Copies())), FIELDS, ("out",))

    running, segment, _ = run(root, tmp_path, numbers(0, 1, 3))

    totals = Totals()
    totals.add("q", segment, [running.receipt], emits=False)
    sink = totals.sinks["out"]
    assert written("out") == [1] + [3] * 9
    assert written("out", OFFSET) == [1] + [2] * 9
    assert (sink.incoming, sink.made, sink.accepted, sink.filtered) == (3, 2 + 6, 10, 1)
    assert sink.is_balanced


def test_one_of_several_events_of_one_may_be_a_dead_letter(tmp_path: Path) -> None:
    came = pa.RecordBatch.from_pydict({"n": pa.array([2, -1, 0, 1], pa.int64()), OFFSET: [7, 7, 7, 8]})

    running, segment, _ = run(Branch((node(Copies()),), FIELDS, ("out",)), tmp_path, came)

    totals = Totals()
    totals.add("q", segment, [running.receipt], emits=False)
    sink = totals.sinks["out"]
    assert (written("out"), written("out", OFFSET), written("dead_letters", "offset")) == ([2, 2, 1], [7, 7, 8], [7])
    assert (sink.incoming, sink.made, sink.accepted, sink.filtered, sink.dead) == (4, 1, 3, 1, 1)
    assert sink.is_balanced


class Carefree(Memory):
    """Takes events in any order."""

    any_order: ClassVar[bool] = True


class Named(Memory):
    """Wants a text of its own for each event."""

    identified: ClassVar[bool] = True


def meeting(*branches: Branch, sink: Sink | None = None) -> Segment:
    """Branches of one source that meet before a step."""
    union = Branch((node(Keep(above=2)),), FIELDS, ("out",), gathers="both")
    root = Branch((), FIELDS, branches=(*branches, union))
    return Segment({"src": root}, {"out": Output("out", sink or Memory(), FIELDS)}, {"src": True})


def counted(segment: Segment, tmp_path: Path, *batches: pa.RecordBatch) -> Totals:
    running = SegmentRun(segment, "src", split_context(tmp_path), Output("dead_letters", Memory(), SCHEMA))
    assert list(running.process(batches)) == []
    totals = Totals()
    totals.add("q", segment, [running.receipt], emits=False)
    return totals


def test_a_union_of_branches_gives_one_batch_in_the_order_of_reading(tmp_path: Path) -> None:
    high, low = Branch((node(Keep(above=5)),), FIELDS, into="both"), Branch((node(Keep(above=1)),), FIELDS, into="both")

    totals = counted(meeting(high, low), tmp_path, numbers(1, 9, 3, 2, 6), numbers(4, 7))

    sink = totals.sinks["out"]
    assert [batch.column("n").to_pylist() for batch in WRITTEN["out"]] == [[9, 9, 3, 6, 6], [4, 7, 7]]
    assert (sink.incoming, sink.accepted, sink.filtered, sink.dead) == (14, 8, 6, 0)
    assert sink.is_balanced
    assert totals.steps["s[0] keep_above"].incoming == 14 + 9


def test_a_sink_that_takes_any_order_gets_one_branch_after_the_other(tmp_path: Path) -> None:
    high, low = Branch((node(Keep(above=5)),), FIELDS, into="both"), Branch((node(Keep(above=1)),), FIELDS, into="both")

    counted(meeting(high, low, sink=Carefree()), tmp_path, numbers(1, 9, 3))

    assert written("out") == [9, 9, 3]


def test_one_event_on_two_branches_is_two_events_after_their_union(tmp_path: Path) -> None:
    both = Branch((), FIELDS, into="both")

    counted(meeting(both, both, sink=Named()), tmp_path, numbers(3, 4))

    names = written("out", IDENTITY)
    assert written("out") == [3, 3, 4, 4]
    assert len(set(names)) == 4
    assert [str(name).partition(".")[2] for name in names] == ["", "1", "", "1"]


def test_dead_letters_after_a_union_name_their_events(tmp_path: Path) -> None:
    everything = Branch((), FIELDS, into="both")

    totals = counted(meeting(everything, Branch((node(Keep(above=8)),), FIELDS, into="both")), tmp_path, numbers(-1, 9))

    assert written("dead_letters", "offset") == [0, 0]
    assert totals.sinks["out"].is_balanced


def test_dead_letters_name_event_step_and_reason(tmp_path: Path) -> None:
    run(Branch((node(Keep()),), FIELDS, ("out",)), tmp_path, numbers(4, -2))

    (letter,) = WRITTEN["dead_letters"][0].to_pylist()
    shown = {key: letter[key] for key in ("pipeline", "at", "code", "reason", "source", "partition", "offset", "event")}
    assert shown == {
        "pipeline": "p",
        "at": "s[0] keep_above",
        "code": "negative",
        "reason": "below zero",
        "source": "src",
        "partition": "part-0",
        "offset": 1,
        "event": '{"n":-2}',
    }


def test_a_receipt_counts_dead_letters_by_step_and_code_with_an_example(tmp_path: Path) -> None:
    running, _, _ = run(Branch((node(Keep()),), FIELDS, ("out",)), tmp_path, numbers(4, -2, -3))

    assert running.receipt.rejected == {("s[0] keep_above", "negative"): RejectCount(2, "below zero", '{"n":-2}')}


def test_fan_out_reaches_every_sink_and_balances_each(tmp_path: Path) -> None:
    below = tuple(Branch((node(Keep(above=limit)),), FIELDS, (name,)) for limit, name in ((2, "low"), (4, "high")))
    root = Branch((), FIELDS, ("all",), below)

    running, segment, _ = run(root, tmp_path, numbers(1, 3, 5))

    totals = Totals()
    totals.add("q", segment, [running.receipt], emits=False)
    assert (written("all"), written("low"), written("high")) == ([1, 3, 5], [3, 5], [5])
    assert all(sink.is_balanced and sink.incoming == 3 for sink in totals.sinks.values())


def test_a_source_may_reject_events(tmp_path: Path) -> None:
    long = pa.RecordBatch.from_pydict({"message": ["aaaa"], OFFSET: [9]})

    running, segment, _ = run(Branch((), FIELDS, ("out",)), tmp_path, Rejects(long, "line-too-long", "4 bytes"), numbers(1))

    totals = Totals()
    totals.add("q", segment, [running.receipt], emits=False)
    assert totals.read["src"].incoming == 2
    assert totals.sinks["out"].is_balanced
    assert written("dead_letters", "event") == ["aaaa"]


def test_a_step_that_another_query_reports_counts_without_dead_letters(tmp_path: Path) -> None:
    running, _, _ = run(Branch((node(Keep(), reports=False),), FIELDS, ("out",)), tmp_path, numbers(-1, 1))

    assert running.receipt.steps[0].dead == 1
    assert "dead_letters" not in WRITTEN


def test_the_heartbeat_includes_events_that_a_filter_drops(tmp_path: Path) -> None:
    timed = with_fields(FIELDS, {"t": TIMESTAMP})
    steps = (node(Keep(above=100)), node(Clock()))
    watermark = Watermark("t", 0.0)

    _, _, emitted = run(Branch(steps, timed, emits=True), tmp_path, numbers(50, 90), emits=timed, watermark=watermark)

    (heartbeat,) = emitted
    assert heartbeat.column("n").to_pylist() == [None]
    assert heartbeat.column(OFFSET).to_pylist() == [None]
    assert heartbeat.column("t").cast(pa.int64()).to_pylist() == [90]


class Tally(ArrowStep):
    """Count what comes, and drop it."""

    type: str = "tally"

    def fields(self, incoming: Schema) -> Schema:
        return incoming

    def open(self, incoming: Schema) -> CountingOperator:
        return Tallying()


class Tallying:
    def __init__(self) -> None:
        self.incoming = 0

    def __call__(self, batch: pa.RecordBatch) -> Outcome:
        self.incoming += batch.num_rows
        return self.preview(batch)

    def preview(self, batch: pa.RecordBatch) -> Outcome:
        return Outcome(batch.slice(0, 0))

    def measures(self) -> SplitMeasures:
        return SplitMeasures({"came": {"all": self.incoming}}, {"version": f"v{self.incoming}"})


def test_measures_of_a_step_do_not_include_previewed_events(tmp_path: Path) -> None:
    timed = with_fields(FIELDS, {"t": TIMESTAMP})
    root = Branch((node(Clock()), node(Tally(), timed)), timed, emits=True)
    watermark = Watermark("t", 0.0)

    totals = Totals()
    for batches in ((numbers(1, 2), numbers(3)), (numbers(4),)):
        running, segment, _ = run(root, tmp_path, *batches, emits=timed, watermark=watermark)
        totals.add("q", segment, [Receipt.decode(running.receipt.encode())], emits=True)

    assert totals.measured[root.steps[1].id].sums == {"came": {"all": 4}}
    assert totals.as_numbers()["steps"] == {root.steps[1].id: {"came": {"all": 4}, "version": "v1"}}


class Refuse(ArrowStep):
    """Reject everything."""

    type: str = "refuse"

    def fields(self, incoming: Schema) -> Schema:
        return incoming

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        return lambda batch: Outcome(batch.slice(0, 0), (Rejects(batch, "refused", "no"),))


def test_the_heartbeat_includes_filtered_events_that_a_later_step_would_reject(tmp_path: Path) -> None:
    timed = with_fields(FIELDS, {"t": TIMESTAMP})
    steps = (node(Clock()), node(Keep(above=100), timed), node(Refuse(), timed))

    _, _, emitted = run(Branch(steps, timed, emits=True), tmp_path, numbers(50, 90), emits=timed, watermark=Watermark("t", 0.0))

    assert [batch.column("t").cast(pa.int64()).to_pylist() for batch in emitted] == [[90]]


class Parse(ArrowStep):
    """Make a field of numbers up to 60, and drop the others."""

    type: str = "parse"

    def fields(self, incoming: Schema) -> Schema:
        return with_fields(incoming, {"parsed": pa.int64()})

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        def run(batch: pa.RecordBatch) -> Outcome:
            parsed = with_columns(batch, {"parsed": batch.column("n")})
            return Outcome(parsed.filter(pc.less_equal(parsed.column("n"), 60)))

        return run


class Use(ArrowStep):
    """Make a time of what was parsed."""

    type: str = "use"

    def fields(self, incoming: Schema) -> Schema:
        return with_fields(incoming, {"t": TIMESTAMP})

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        return lambda batch: Outcome(with_columns(batch, {"t": batch.column("parsed").cast(TIMESTAMP)}))


@pytest.mark.parametrize(("values", "latest"), [((50, 90), [[50], [50]]), ((70, 90), [])], ids=["some dropped", "all dropped"])
def test_the_heartbeat_does_not_need_what_a_parser_drops(values: tuple[int, ...], latest: list, tmp_path: Path) -> None:
    parsed = with_fields(FIELDS, {"parsed": pa.int64()})
    timed = with_fields(parsed, {"t": TIMESTAMP})
    root = Branch((node(Parse()), node(Use(), parsed)), timed, emits=True)

    _, _, emitted = run(root, tmp_path, numbers(*values), emits=timed, watermark=Watermark("t", 0.0))

    assert [batch.column("t").cast(pa.int64()).to_pylist() for batch in emitted] == latest


def test_an_event_without_a_time_is_a_dead_letter(tmp_path: Path) -> None:
    timed = pa.schema([("n", pa.int64()), ("t", TIMESTAMP)])
    batch = pa.RecordBatch.from_pydict({"n": [1, 2], "t": pa.array([7, None], TIMESTAMP), OFFSET: [0, 1]})

    running, segment, emitted = run(Branch((), timed, emits=True), tmp_path, batch, emits=timed, watermark=Watermark("t", 0.0))

    totals = Totals()
    totals.add("q", segment, [running.receipt], emits=True)
    assert [b.num_rows for b in emitted] == [1, 1]
    assert written("dead_letters", "code") == ["no-event-time"]
    assert (totals.to_spark["q"].incoming, totals.to_spark["q"].left, totals.to_spark["q"].dead) == (2, 1, 1)


def test_an_event_of_a_clock_that_is_ahead_is_a_dead_letter(tmp_path: Path) -> None:
    timed = pa.schema([("n", pa.int64()), ("t", TIMESTAMP)])
    batch = pa.RecordBatch.from_pydict({"n": [1, 2], "t": pa.array([7, 4_000_000_000_000_000], TIMESTAMP), OFFSET: [0, 1]})
    context = replace(split_context(tmp_path), read_at=1_700_000_000.0, max_ahead_seconds=86_400.0)
    segment = Segment({"src": Branch((), timed, emits=True)}, {}, {"src": True})
    dead = Output("dead_letters", Memory(), SCHEMA)

    running = SegmentRun(segment, "src", context, dead, exchanges(timed, Watermark("t", 0.0)))
    ((_, events), _) = running.process([batch])

    assert events.column("n").to_pylist() == [1]
    assert running.receipt.event_time == 7
    assert written("dead_letters", "code") == ["event-time-out-of-range"]
    assert "t is more than 1d ahead of the time of reading (run.max_ahead)" in written("dead_letters", "reason")[0]


def test_a_failing_step_aborts_the_writers(tmp_path: Path) -> None:
    def batches() -> object:
        yield numbers(1)
        raise ValueError("the source broke")

    root = Branch((), FIELDS, ("out",))
    segment = Segment({"src": root}, {"out": Output("out", Memory(), FIELDS)}, {"src": True})
    context = split_context(tmp_path)

    with pytest.raises(ValueError, match="the source broke"):
        list(SegmentRun(segment, "src", context, Output("dead_letters", Memory(), SCHEMA)).process(batches()))

    assert written("out") == []


LINES = pa.schema([("message", pa.string())])
SEEN: list[tuple[str, pa.DataType]] = []


class Look(ArrowStep):
    """Note the type of the texts, and reject those that begin with a bang."""

    type: str = "look"

    def fields(self, incoming: Schema) -> Schema:
        return incoming

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        def run(batch: pa.RecordBatch) -> Outcome:
            SEEN.append((self.type, batch.column("message").type))
            bad = pa.array([text.startswith("!") for text in batch.column("message").to_pylist()])
            rejects = (Rejects(filter_batch(batch, bad), "bang", "begins with a bang"),) if bad.true_count else ()
            return Outcome(filter_batch(batch, pc.invert(bad)), rejects)

        return run


class LookAtViews(Look):
    """The same for views."""

    type: str = "look_at_views"
    takes_views = True


class ViewMemory(Memory):
    """Keep batches with their views."""

    type: str = "view_memory"
    takes_views = True


def views(*texts: str) -> pa.RecordBatch:
    return pa.record_batch({"message": pa.array(texts, pa.string_view()), OFFSET: list(range(len(texts)))})


def run_lines(root: Branch, tmp_path: Path, batch: pa.RecordBatch, **options: object) -> tuple[SegmentRun, list[pa.RecordBatch]]:
    SEEN.clear()
    sinks = {"views": ViewMemory(), "few": ViewMemory(batch=Batching(max_events=1))}
    outputs = {name: Output(name, sinks.get(name, Memory()), LINES) for part in root.walk() for name in part.sinks}
    context = split_context(tmp_path)
    running = SegmentRun(
        Segment({"src": root}, outputs, {"src": True}),
        "src",
        context,
        Output("dead_letters", Memory(), SCHEMA),
        exchanges(**options),
    )
    return running, [found for _, found in running.process([batch])]


def type_at(sink: str) -> set[pa.DataType]:
    return {batch.column("message").type for batch in WRITTEN[sink]}


def test_views_are_passed_to_steps_that_take_them(tmp_path: Path) -> None:
    steps = (node(LookAtViews(), LINES), node(Look(), LINES), node(LookAtViews(), LINES))

    run_lines(Branch(steps, LINES, ("out",)), tmp_path, views("short", "longer than twelve bytes"))

    assert [("look_at_views", pa.string_view()), ("look", pa.string()), ("look_at_views", pa.string())] == SEEN
    assert written("out", "message") == ["short", "longer than twelve bytes"]


def test_each_sink_gets_the_kind_of_texts_that_it_takes(tmp_path: Path) -> None:
    below = (Branch((node(Look(), LINES),), LINES, ("below",)), Branch((), LINES, ("views",)))
    root = Branch((node(LookAtViews(), LINES),), LINES, ("views", "few", "out"), below)

    run_lines(root, tmp_path, views("a text of some length", "b"))

    assert (type_at("views"), type_at("few"), type_at("out")) == ({pa.string_view()}, {pa.string()}, {pa.string()})
    assert [len(batch) for batch in WRITTEN["few"]] == [1, 1]
    assert written("below", "message") == written("out", "message") == ["a text of some length", "b"]
    assert [("look_at_views", pa.string_view()), ("look", pa.string())] == SEEN


def test_views_are_converted_to_strings_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[pa.Array] = []
    monkeypatch.setattr(texts, "materialize_array", lambda array: made.append(array) or materialize_array(array))
    below = tuple(Branch((node(Look(), LINES),), LINES, (name,)) for name in ("low", "high"))

    run_lines(Branch((), LINES, ("out", "views"), below), tmp_path, views("a", "b"))

    assert [array.type for array in made].count(pa.string_view()) == 1


def test_dead_letters_spark_and_the_watermark_get_strings(tmp_path: Path) -> None:
    timed = with_fields(LINES, {"t": TIMESTAMP})
    steps = (node(LookAtViews(), LINES), node(Tick(), LINES))
    batch = views("!a text that is rejected", "a text that is kept")

    _, emitted = run_lines(Branch(steps, timed, emits=True), tmp_path, batch, emits=timed, watermark=Watermark("t", 0.0))

    assert written("dead_letters", "event") == ["!a text that is rejected"]
    assert [found.column("message").to_pylist() for found in emitted] == [["a text that is kept"], [None]]
    assert {found.column("message").type for found in emitted} == {pa.string()}


class Tick(ArrowStep):
    """Give every event a time."""

    type: str = "tick"
    takes_views = True

    def fields(self, incoming: Schema) -> Schema:
        return with_fields(incoming, {"t": TIMESTAMP})

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        return lambda batch: Outcome(with_columns(batch, {"t": pa.array([7] * len(batch), TIMESTAMP)}))


def test_bytes_read_are_those_of_the_texts_and_not_of_their_block(tmp_path: Path) -> None:
    batch = views("a text of twenty one.", "b", "another of twenty one").slice(1)

    running, _ = run_lines(Branch((), LINES, ("out",)), tmp_path, batch)

    assert running.receipt.bytes_read == 22


def test_events_of_a_micro_batch_have_its_time_of_reading_however_often_it_runs(tmp_path: Path) -> None:
    emits = pa.schema([("n", pa.int64()), ("_read_at", TIMESTAMP)])
    segment = Segment({"src": Branch((), FIELDS, emits=True)}, {}, {"src": True})
    context = replace(split_context(tmp_path), read_at=1_700_000_000.25)

    for _ in range(2):
        dead = Output("dead_letters", Memory(), SCHEMA)
        running = SegmentRun(segment, "src", context, dead, exchanges(emits, Watermark("_read_at", 0, arrival=True)))
        ((_, events), (_, heartbeat)) = running.process([numbers(1, 2)])

        times = [*events.column("_read_at").to_pylist(), *heartbeat.column("_read_at").to_pylist()]
        assert {time.timestamp() for time in times} == {1_700_000_000.25}
        assert running.receipt.event_time == 1_700_000_000_250_000


def test_event_times_in_nanoseconds_are_cut_to_microseconds() -> None:
    event_time = EventTime(Watermark("time", 0))

    event_time.observe(pa.record_batch({"time": pa.array([1_999, 1_001], pa.timestamp("ns"))}))

    assert event_time.latest == 1
