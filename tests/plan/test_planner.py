"""The planner: queries, segments, which steps Spark runs, and which query reports a step."""

from __future__ import annotations

import pytest
from fakes import Both, Count, Frames, Lines, Row, make_plan

from etl.api import PlanError
from etl.plan.frames import AppliedSparkStep, Read, SparkRead, Union, frame_sources
from etl.plan.render import render_plan
from etl.steps.window import Window


def test_row_wise_sinks_of_one_source_share_a_query() -> None:
    planned = make_plan({"src": Lines()}, {"a": ("src", [Row()]), "b": ("a", [Row()])}, {"one": "a", "two": "b"})

    (query,) = planned.queries
    root = query.segment.roots["src"]
    assert query.frame is None
    assert [node.id for node in root.steps] == ["a[0] row"]
    assert root.sinks == ("one",)
    assert [(b.steps[0].id, b.sinks) for b in root.branches] == [("b[0] row", ("two",))]


def test_sources_that_share_a_sink_share_a_query_and_others_do_not() -> None:
    planned = make_plan({"a": Lines(), "b": Lines(), "c": Lines()}, {}, {"ab": "a b", "c_out": "c"})

    assert [query.name for query in planned.queries] == ["a+b", "c"]


def test_a_union_gets_the_fields_of_all_its_inputs() -> None:
    planned = make_plan({"a": Lines(), "b": Lines(extra=("host",))}, {"u": ("a b", [Row()])}, {"out": "u"})

    roots = planned.queries[0].segment.roots
    assert [node.id for node in roots["a"].steps] == ["u union", "u[0] row"]
    assert [node.id for node in roots["b"].steps] == ["u[0] row"]
    assert planned.queries[0].segment.outputs["out"].schema.names == ["message", "host"]


def test_a_sink_of_streams_with_different_fields_gets_all_fields() -> None:
    planned = make_plan({"a": Lines(), "b": Lines(extra=("host",))}, {}, {"out": "a b"})

    branch = planned.queries[0].segment.roots["a"].branches[0]
    assert (branch.steps[0].id, branch.sinks) == ("out union", ("out",))


def test_a_step_after_a_union_of_branches_is_planned_once() -> None:
    streams = {"one": ("src", [Row()]), "two": ("src", [Row(adds="t")]), "both": ("one two", [Row()])}
    planned = make_plan({"src": Lines()}, streams, {"out": "both", "aside": "one"})

    root = planned.queries[0].segment.roots["src"]
    one, two, both = root.branches
    assert [(part.into, part.gathers) for part in (*one.branches, two, both)] == [("both", None), ("both", None), (None, "both")]
    assert ([node.id for node in both.steps], both.sinks) == (["both[0] row"], ("out",))
    assert both.incoming.names == ["message", "t"]
    reason = [line.strip() for line in render_plan(planned)]
    assert (reason.count("→ union both"), reason.count("union both")) == (2, 1)


def test_branches_may_have_two_unions() -> None:
    streams = {
        "a": ("src", [Row()]), "b": ("src", [Row()]), "c": ("src", [Row()]),
        "ab": ("a b", [Row()]), "abc": ("ab c", [Row()]),
    }  # fmt: skip
    planned = make_plan({"src": Lines()}, streams, {"out": "abc"})

    root = planned.queries[0].segment.roots["src"]
    assert [(part.into, part.gathers) for part in root.branches] == [
        ("ab", None), ("ab", None), ("abc", None), ("abc", "ab"), (None, "abc"),
    ]  # fmt: skip


def test_a_stateful_step_has_its_own_query_that_reads_only_the_fields_that_it_needs() -> None:
    streams = {"parsed": ("src", [Row(adds="t")]), "counted": ("parsed", [Row(), Count()])}
    planned = make_plan({"src": Lines()}, streams, {"archive": "parsed", "alerts": "counted"})

    archive, counted = planned.queries
    (read,) = frame_sources(counted.frame)
    assert archive.frame is None
    assert isinstance(counted.frame, AppliedSparkStep)
    assert isinstance(read, Read)
    assert read.schema.names == ["t"]
    assert (read.watermark.field, read.watermark.late_seconds, read.watermark.max_delay_seconds) == ("t", 5.0, 60.0)
    assert counted.segment.roots[""].sinks == ("alerts",)
    assert counted.stateful


def test_a_step_in_two_queries_reports_in_the_first() -> None:
    streams = {"parsed": ("src", [Row(adds="t")]), "counted": ("parsed", [Count()])}
    planned = make_plan({"src": Lines()}, streams, {"archive": "parsed", "alerts": "counted"})

    archive, counted = planned.queries
    (read,) = frame_sources(counted.frame)
    assert archive.segment.roots["src"].steps[0].reports
    assert archive.segment.counts_source == {"src": True}
    assert not read.segment.roots["src"].steps[0].reports
    assert read.segment.counts_source == {"src": False}


def test_a_step_behind_a_union_reports_in_each_query_that_runs_it_over_other_events() -> None:
    streams = {"timed": ("theirs", [Row(adds="t")]), "u": ("ours timed", [Row()]), "n": ("u", [Count()])}
    planned = make_plan({"ours": Lines(), "theirs": Frames()}, streams, {"archive": "u", "counts": "n"})

    ours, theirs, counted = planned.queries
    step_of_ours, step_of_theirs = ours.segment.roots["ours"].steps[-1], theirs.segment.roots[""].steps[-1]
    assert (step_of_ours.id, step_of_ours.reports) == (step_of_theirs.id, step_of_theirs.reports) == ("u[0] row", True)
    behind_both = counted.frame.child.branch.steps[-1]
    assert (behind_both.id, behind_both.reports) == ("u[0] row", False)


def test_a_step_behind_a_union_of_stateful_steps_reports_the_results_of_both() -> None:
    streams = {
        "timed": ("src", [Row(adds="t")]), "a": ("timed", [Count()]), "b": ("timed", [Row(), Count()]), "u": ("a b", [Row()]),
    }  # fmt: skip
    planned = make_plan({"src": Lines()}, streams, {"out": "u"})

    assert [query.segment.roots[""].steps[-1].reports for query in planned.queries] == [True, True]
    first, second = (next(iter(frame_sources(query.frame))).segment.roots["src"].steps for query in planned.queries)
    assert [(node.id, node.reports) for node in first] == [("timed[0] row", True)]
    assert [(node.id, node.reports) for node in second] == [("timed[0] row", False), ("b[0] row", True)]


def test_a_step_without_an_arrow_form_runs_on_spark_and_explain_gives_the_reason() -> None:
    planned = make_plan({"src": Lines()}, {"s": ("src", [Row(), Both(), Row()])}, {"out": "s"})

    (query,) = planned.queries
    assert not query.stateful
    assert [node.id for node in query.segment.roots[""].steps] == ["s[2] row"]
    assert "  s[1] both: Spark, because soundex has no Arrow form" in list(render_plan(planned))


def test_row_wise_steps_after_a_source_that_spark_reads_run_over_its_partitions() -> None:
    planned = make_plan({"src": Frames()}, {"s": ("src", [Row()])}, {"out": "s"})

    (query,) = planned.queries
    assert isinstance(query.frame, SparkRead)
    assert [node.id for node in query.segment.roots[""].steps] == ["s[0] row"]


def test_a_source_with_two_paths_to_a_window_is_read_once() -> None:
    streams = {"a": ("src", [Row(adds="t")]), "b": ("src", [Row(adds="t")]), "c": ("a b", [Count()])}
    planned = make_plan({"src": Lines()}, streams, {"out": "c"})

    (query,) = planned.queries
    (read,) = frame_sources(query.frame)
    ways = read.segment.roots["src"].branches
    assert [way.steps[0].id for way in ways] == ["a[0] row", "b[0] row"]
    assert all(way.emits for way in ways)


def test_spark_computes_a_union_of_arrow_and_spark_streams() -> None:
    streams = {"u": ("ours theirs", [Count()])}
    planned = make_plan({"ours": Lines(extra=("t",)), "theirs": Frames()}, streams, {"out": "u"})

    assert isinstance(planned.queries[0].frame.child, Union)


def test_a_spark_step_behind_a_stream_and_a_source_read_once_has_a_query_for_each() -> None:
    streams = {"u": ("ours more theirs once", [Both(), Row()])}
    sources = {"ours": Lines(), "more": Lines(extra=("host",)), "theirs": Frames(), "once": Frames(streams=False)}
    planned = make_plan(sources, streams, {"out": "u"})

    streamed, once = (query for query in planned.queries)
    assert [(query.name, query.streaming) for query in (streamed, once)] == [
        ("u-both-of-ours+more+theirs", True), ("u-both-of-once", False),
    ]  # fmt: skip
    assert [query.segment.roots[""].steps[-1].reports for query in (streamed, once)] == [True, True]
    assert once.frame.child.branch.outgoing.names == ["message", "host"]


def test_a_spark_step_behind_a_union_of_stateful_steps_has_a_query_for_each() -> None:
    def window(**options: object) -> Window:
        return Window.model_validate({"time": "t", "size": "1m", "aggregates": {"n": "count(*)"}, **options})

    streams = {
        "timed": ("src", [Row(adds="t")]), "a": ("timed", [window()]), "b": ("timed", [window(group_by=["message"])]),
        "u": ("timed a b", [Both()]),
    }  # fmt: skip
    planned = make_plan({"src": Lines()}, streams, {"out": "u"})

    assert [query.name for query in planned.queries] == ["u-both-of-timed", "u-both-of-a", "u-both-of-b"]
    assert [query.on_state_lane for query in planned.queries] == [False, True, True]
    assert [query.maps_frames for query in planned.queries] == [True, True, True]


def test_only_steps_that_spark_runs_need_its_frames_in_python() -> None:
    window = Window.model_validate({"time": "t", "size": "1m", "aggregates": {"n": "count(*)"}})
    streams = {"timed": ("src", [Row(adds="t")]), "windows": ("timed", [window]), "counted": ("timed", [Count()])}

    of_windows = make_plan({"src": Lines()}, streams, {"out": "windows", "aside": "timed"})
    counting = make_plan({"src": Lines()}, streams, {"out": "counted"})

    assert [query.maps_frames for query in of_windows.queries] == [False, False]
    assert [query.maps_frames for query in counting.queries] == [True]


def test_a_stateful_step_over_a_stream_and_a_source_read_once_is_refused() -> None:
    streams = {"u": ("ours once", [Row(adds="t"), Count()])}

    with pytest.raises(PlanError, match=r"u\[1\] count: this step needs the events of a stream together with those of 'once'"):
        make_plan({"ours": Lines(), "once": Frames(streams=False)}, streams, {"out": "u"})


def test_a_sink_with_an_arrow_and_a_spark_input_has_two_queries() -> None:
    streams = {"timed": ("src", [Row(adds="t")]), "counted": ("timed", [Count()])}
    planned = make_plan({"src": Lines()}, streams, {"out": "timed counted"})

    assert [list(query.segment.outputs) for query in planned.queries] == [["out"], ["out"]]
    assert planned.queries[0].segment.outputs["out"].schema.names == ["message", "t", "n"]


def test_a_pipeline_without_a_connected_sink_is_an_error() -> None:
    with pytest.raises(PlanError, match="'p' delivers nothing"):
        make_plan({"src": Lines()}, {"s": ("src", [Row()])}, {})


def test_an_event_time_from_a_spark_step_gets_its_watermark_after_that_step() -> None:
    planned = make_plan({"src": Lines()}, {"counted": ("src", [Both(adds="t"), Count()])}, {"out": "counted"})

    (read,) = frame_sources(planned.queries[0].frame)
    assert isinstance(read, Read)
    assert read.watermark is None


def test_a_text_that_a_spark_step_converts_to_a_time_has_no_watermark_in_the_reader() -> None:
    planned = make_plan({"src": Lines(extra=("t",))}, {"counted": ("src", [Both(adds="t"), Count()])}, {"out": "counted"})

    (read,) = frame_sources(planned.queries[0].frame)
    assert isinstance(read, Read)
    assert read.watermark is None
