"""What runs where: queries, segments, boundaries, reporting."""

from __future__ import annotations

import pytest
from fakes import Both, Count, Frames, Lines, Row, made

from etl.api import PlanError
from etl.plan.model import Apply, Native, Read, Union, frame_sources
from etl.plan.render import explained


def test_row_wise_sinks_of_one_source_share_a_query() -> None:
    planned = made({"src": Lines()}, {"a": ("src", [Row()]), "b": ("a", [Row()])}, {"one": "a", "two": "b"})

    (query,) = planned.queries
    root = query.segment.roots["src"]
    assert query.frame is None
    assert [node.id for node in root.steps] == ["a[0] row"]
    assert root.sinks == ("one",)
    assert [(b.steps[0].id, b.sinks) for b in root.branches] == [("b[0] row", ("two",))]


def test_sources_joined_by_a_sink_share_a_query_and_others_do_not() -> None:
    planned = made({"a": Lines(), "b": Lines(), "c": Lines()}, {}, {"ab": "a b", "c_out": "c"})

    assert [query.name for query in planned.queries] == ["a+b", "c"]


def test_a_union_gets_the_fields_of_all_its_inputs() -> None:
    planned = made({"a": Lines(), "b": Lines(extra=("host",))}, {"u": ("a b", [Row()])}, {"out": "u"})

    roots = planned.queries[0].segment.roots
    assert [node.id for node in roots["a"].steps] == ["u union", "u[0] row"]
    assert [node.id for node in roots["b"].steps] == ["u[0] row"]
    assert planned.queries[0].segment.outputs["out"].schema.names == ["message", "host"]


def test_a_sink_over_streams_of_other_fields_is_aligned() -> None:
    planned = made({"a": Lines(), "b": Lines(extra=("host",))}, {}, {"out": "a b"})

    branch = planned.queries[0].segment.roots["a"].branches[0]
    assert (branch.steps[0].id, branch.sinks) == ("out union", ("out",))


def test_what_stands_behind_branches_that_meet_is_there_once() -> None:
    streams = {"one": ("src", [Row()]), "two": ("src", [Row(adds="t")]), "both": ("one two", [Row()])}
    planned = made({"src": Lines()}, streams, {"out": "both", "aside": "one"})

    root = planned.queries[0].segment.roots["src"]
    one, two, both = root.branches
    assert [(part.into, part.gathers) for part in (*one.branches, two, both)] == [("both", None), ("both", None), (None, "both")]
    assert ([node.id for node in both.steps], both.sinks) == (["both[0] row"], ("out",))
    assert both.incoming.names == ["message", "t"]
    said = [line.strip() for line in explained(planned)]
    assert (said.count("→ union both"), said.count("union both")) == (2, 1)


def test_branches_may_meet_twice() -> None:
    streams = {
        "a": ("src", [Row()]), "b": ("src", [Row()]), "c": ("src", [Row()]),
        "ab": ("a b", [Row()]), "abc": ("ab c", [Row()]),
    }  # fmt: skip
    planned = made({"src": Lines()}, streams, {"out": "abc"})

    root = planned.queries[0].segment.roots["src"]
    assert [(part.into, part.gathers) for part in root.branches] == [
        ("ab", None), ("ab", None), ("abc", None), ("abc", "ab"), (None, "abc"),
    ]  # fmt: skip


def test_a_stateful_step_has_a_query_of_its_own_that_reads_only_what_it_needs() -> None:
    streams = {"parsed": ("src", [Row(adds="t")]), "counted": ("parsed", [Row(), Count()])}
    planned = made({"src": Lines()}, streams, {"archive": "parsed", "alerts": "counted"})

    archive, counted = planned.queries
    (read,) = frame_sources(counted.frame)
    assert archive.frame is None
    assert isinstance(counted.frame, Apply)
    assert isinstance(read, Read)
    assert read.schema.names == ["t"]
    assert (read.watermark.field, read.watermark.late_seconds, read.watermark.reach_seconds) == ("t", 5.0, 60.0)
    assert counted.segment.roots[""].sinks == ("alerts",)
    assert counted.stateful


def test_a_step_in_two_queries_reports_in_the_first() -> None:
    streams = {"parsed": ("src", [Row(adds="t")]), "counted": ("parsed", [Count()])}
    planned = made({"src": Lines()}, streams, {"archive": "parsed", "alerts": "counted"})

    archive, counted = planned.queries
    (read,) = frame_sources(counted.frame)
    assert archive.segment.roots["src"].steps[0].reports
    assert archive.segment.counts_source == {"src": True}
    assert not read.segment.roots["src"].steps[0].reports
    assert read.segment.counts_source == {"src": False}


def test_a_step_without_an_arrow_form_runs_on_spark_and_explain_says_why() -> None:
    planned = made({"src": Lines()}, {"s": ("src", [Row(), Both(), Row()])}, {"out": "s"})

    (query,) = planned.queries
    assert not query.stateful
    assert [node.id for node in query.segment.roots[""].steps] == ["s[2] row"]
    assert "  s[1] both: Spark, because soundex has no Arrow form" in list(explained(planned))


def test_row_wise_steps_behind_a_source_of_sparks_run_over_its_partitions() -> None:
    planned = made({"src": Frames()}, {"s": ("src", [Row()])}, {"out": "s"})

    (query,) = planned.queries
    assert isinstance(query.frame, Native)
    assert [node.id for node in query.segment.roots[""].steps] == ["s[0] row"]


def test_one_source_on_two_ways_into_a_window_is_read_once() -> None:
    streams = {"a": ("src", [Row(adds="t")]), "b": ("src", [Row(adds="t")]), "c": ("a b", [Count()])}
    planned = made({"src": Lines()}, streams, {"out": "c"})

    (query,) = planned.queries
    (read,) = frame_sources(query.frame)
    ways = read.segment.roots["src"].branches
    assert [way.steps[0].id for way in ways] == ["a[0] row", "b[0] row"]
    assert all(way.emits for way in ways)


def test_a_union_of_arrow_and_spark_is_sparks() -> None:
    streams = {"u": ("ours theirs", [Count()])}
    planned = made({"ours": Lines(extra=("t",)), "theirs": Frames()}, streams, {"out": "u"})

    assert isinstance(planned.queries[0].frame.child, Union)


def test_a_sink_fed_by_arrow_and_by_spark_is_served_by_two_queries() -> None:
    streams = {"timed": ("src", [Row(adds="t")]), "counted": ("timed", [Count()])}
    planned = made({"src": Lines()}, streams, {"out": "timed counted"})

    assert [list(query.segment.outputs) for query in planned.queries] == [["out"], ["out"]]
    assert planned.queries[0].segment.outputs["out"].schema.names == ["message", "t", "n"]


def test_a_pipeline_that_delivers_nothing_is_refused() -> None:
    with pytest.raises(PlanError, match="'p' delivers nothing"):
        made({"src": Lines()}, {"s": ("src", [Row()])}, {})


def test_a_time_that_a_spark_step_makes_gets_its_watermark_behind_it() -> None:
    planned = made({"src": Lines()}, {"counted": ("src", [Both(adds="t"), Count()])}, {"out": "counted"})

    (read,) = frame_sources(planned.queries[0].frame)
    assert isinstance(read, Read)
    assert read.watermark is None


def test_a_text_that_a_spark_step_makes_a_time_of_has_no_watermark_in_the_reader() -> None:
    planned = made({"src": Lines(extra=("t",))}, {"counted": ("src", [Both(adds="t"), Count()])}, {"out": "counted"})

    (read,) = frame_sources(planned.queries[0].frame)
    assert isinstance(read, Read)
    assert read.watermark is None
