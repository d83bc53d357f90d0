"""Totals at the end of a run: for each sink, the counts of events in and out balance."""

from __future__ import annotations

from collections.abc import Iterator

from etl.cli.run.step_summary import step_summary
from etl.plan.query_plan import Plan, QueryPlan
from etl.running.dead_letter_share import WARNING_SHARE, reason_line
from etl.running.messages import count
from etl.spark.reports.totals import SinkTotals, Totals

MAX_REASONS = 3
"""Reasons of dead letters in a summary."""


def format_summary(plan: Plan, totals: Totals, verbose: bool = False) -> Iterator[str]:
    """Lines of text: sources, then each sink with ``in = out + filtered + dead``, then steps that count and dead letters;
    ``verbose``: also how often and why each sink was written."""
    read, seconds = sum(counts.incoming for counts in totals.read.values()), totals.seconds
    rate = f", {count(read / seconds)} events/s" if read and seconds else ""
    yield f"{plan.pipeline}: {_of(read, 'event')}, {_format_bytes(totals.bytes)} in {seconds:.1f} s{rate}"
    for source, reasons in totals.dropped.items():
        for reason, events in reasons.items():
            yield f"  {source}: {_of(events, 'event')} dropped by its receiver: {reason}"
    for query in plan.queries:
        yield from _format_query_lines(query, totals)
    width = max((len(name) for name in totals.sinks), default=0)
    for name, sink in totals.sinks.items():
        came = f"{count(sink.incoming)} in{_format_added(sink.made)}"
        dead = f"{count(sink.dead)} dead{_format_spooled(sink.spooled)}"
        went = f"{count(sink.accepted)} out + {count(sink.filtered)} filtered + {dead}"
        yield f"  {name:<{width}}  {came} = {went}{'' if sink.is_balanced else '  (does not balance: please report this)'}"
        if verbose:
            yield f"  {'':<{width}}  {_format_writes(sink)}"
    yield from step_summary(totals)
    if totals.dead:
        yield f"  {_of(totals.dead, 'dead letter')}: {_dead_letter_target(plan)}"
        if totals.dead < read * WARNING_SHARE:  # else the run reports all reasons, with examples
            yield from _reason_lines(totals)


def _reason_lines(totals: Totals) -> Iterator[str]:
    """The most frequent reasons of dead letters."""
    by_frequency = sorted(totals.rejected.items(), key=lambda one: -one[1].events)
    yield from (f"    {reason_line(where, rejected)}" for where, rejected in by_frequency[:MAX_REASONS])


def _format_writes(sink: SinkTotals) -> str:
    """``written 12 times: 10 by count, 2 by end_of_batch; 3 tries again``."""
    reasons = ", ".join(f"{count(times)} by {reason}" for reason, times in sorted(sink.flushes.items()))
    again = f"; {count(sink.retries)} tries again" if sink.retries else ""
    return f"written {count(sum(sink.flushes.values()))} times{': ' + reasons if reasons else ''}{again}"


def _format_added(events: int) -> str:
    """Events added by steps that make several events of one."""
    return f" + {count(events)} made" if events else ""


def _format_spooled(events: int) -> str:
    """Events in the spool, minus those of earlier runs that this run delivered."""
    return f" {'+' if events > 0 else '-'} {count(abs(events))} spooled" if events else ""


def _format_query_lines(plan: QueryPlan, totals: Totals) -> Iterator[str]:
    """For a query with state or with steps on Spark: what reaches them, and what they give."""
    query, lane = plan.name, plan.on_state_lane
    counts = totals.to_spark.get(query)
    if counts is not None:
        results, where = totals.results.get(query, 0), "state" if lane else "Spark"
        yield (
            f"  {query}: {count(counts.incoming)} in{_format_added(counts.made)} = {count(counts.left)} to {where} "
            f"+ {count(counts.filtered)} filtered + {count(counts.dead)} dead; {_of(results, 'result')}"
        )
    if totals.late.get(query):
        what = _of(totals.late[query], "event") if lane else f"{_of(totals.late[query], 'group')} of events"
        yield f"  {query}: {what} came too late for their step and were dropped"
    if totals.over_limit.get(query):
        what = _of(totals.over_limit[query], "event")
        yield f"  {query}: {what} dropped, because their key had as many as the limit of the step"


def _of(number: int, thing: str) -> str:
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def _dead_letter_target(plan: Plan) -> str:
    targets = list(plan.dead_letters.sink.targets())
    return targets[0] if targets else plan.dead_letters.sink.type


def _format_bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return ""
