"""What a run prints at its end."""

from __future__ import annotations

from fakes import Lines, make_plan

from etl.cli.run.summary import format_summary
from etl.receipts import Counts, Delivered
from etl.spark.reports.totals import SinkTotals, Totals


def lines(totals: Totals, verbose: bool = False) -> list[str]:
    plan = make_plan({"log": Lines()}, {"all": ("log", [])}, {"out": "all"})
    return list(format_summary(plan, totals, verbose))[1:]


def test_events_in_a_spool_are_part_of_the_balance() -> None:
    waiting = SinkTotals(incoming=10, accepted=3, filtered=1, dead=2, spooled=4)
    delivered = SinkTotals(incoming=10, accepted=14, spooled=-4)

    assert lines(Totals(sinks={"out": waiting})) == ["  out  10 in = 3 out + 1 filtered + 2 dead + 4 spooled"]
    assert lines(Totals(sinks={"out": delivered})) == ["  out  10 in = 14 out + 0 filtered + 0 dead - 4 spooled"]


def test_events_that_leave_a_spool_are_counted_as_what_became_of_them() -> None:
    totals = Totals(read={"log": Counts(9, 9)}, sinks={"out": SinkTotals(incoming=9, spooled=9)})

    totals.add_drained("out", Delivered(incoming=9, accepted=7, dead=2, retries=1, flushes={"count": 3}), 9)

    sink = totals.sinks["out"]
    assert (sink.accepted, sink.dead, sink.spooled, sink.retries, sink.is_balanced) == (7, 2, 0, 1, True)
    assert totals.dead == 2


def test_events_that_a_sink_took_and_that_wait_nevertheless_are_put_back() -> None:
    totals = Totals(sinks={"out": SinkTotals(incoming=9, accepted=9)})

    totals.put_back({"out": 4, "other": 0})

    assert (totals.sinks["out"].accepted, totals.sinks["out"].spooled, totals.sinks["out"].is_balanced) == (5, 4, True)


def test_events_dropped_by_a_receiver_are_listed_with_the_reason() -> None:
    totals = Totals(dropped={"log": {"the journal was full": 1200}})

    assert lines(totals) == ["  log: 1,200 events dropped by its receiver: the journal was full"]
    assert totals.as_numbers()["dropped"] == {"log": {"the journal was full": 1200}}


def test_events_that_steps_with_state_dropped_are_listed_with_the_reason() -> None:
    plan = make_plan({"log": Lines()}, {"all": ("log", [])}, {"out": "all"})
    totals, query = Totals(), plan.queries[0].name
    totals.add_dropped(query, late=0, over_limit=1200)

    listed = list(format_summary(plan, totals))[1:]

    assert listed == [f"  {query}: 1,200 events dropped, because their key had as many as the limit of the step"]
    assert totals.as_numbers()["over_limit"] == {query: 1200}


def test_verbose_lists_why_sinks_were_written() -> None:
    totals = Totals(sinks={"out": SinkTotals(incoming=9, accepted=9, retries=2, flushes={"end_of_batch": 1, "count": 4})})

    assert lines(totals, verbose=True)[1] == "       written 5 times: 4 by count, 1 by end_of_batch; 2 tries again"
