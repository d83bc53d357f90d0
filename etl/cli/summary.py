"""What a run prints at its end: the way of every event, balanced."""

from __future__ import annotations

from collections.abc import Iterator

from etl.cli.progress import count
from etl.plan.model import Plan
from etl.spark.totals import Totals


def summary(plan: Plan, totals: Totals) -> Iterator[str]:
    """Lines of text: sources, then each sink with ``in = out + filtered + dead``, then what deserves a look."""
    read, seconds = sum(counts.came for counts in totals.read.values()), totals.seconds
    rate = f", {count(read / seconds)} events/s" if read and seconds else ""
    yield f"{plan.pipeline}: {_of(read, 'event')}, {_bytes(totals.bytes)} in {seconds:.1f} s{rate}"
    for query in plan.queries:
        yield from _spark_lines(query.name, totals)
    width = max((len(name) for name in totals.sinks), default=0)
    for name, sink in totals.sinks.items():
        balance = f"{count(sink.came)} in = {count(sink.taken)} out + {count(sink.filtered)} filtered + {count(sink.dead)} dead"
        yield f"  {name:<{width}}  {balance}{'' if sink.balanced else '  (does not balance: please report this)'}"
    if totals.dead:
        yield f"  {_of(totals.dead, 'dead letter')}: {_place(plan)}"


def _spark_lines(query: str, totals: Totals) -> Iterator[str]:
    counts = totals.to_spark.get(query)
    if counts is not None:
        results = totals.results.get(query, 0)
        yield (
            f"  {query}: {count(counts.came)} in = {count(counts.left)} to Spark + {count(counts.filtered)} filtered "
            f"+ {count(counts.dead)} dead; {_of(results, 'result')}"
        )
    if totals.late.get(query):
        yield f"  {query}: {_of(totals.late[query], 'group')} of events came after their window had closed and were dropped"


def _of(number: int, thing: str) -> str:
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def _place(plan: Plan) -> str:
    targets = list(plan.dead_letters.sink.targets())
    return targets[0] if targets else plan.dead_letters.sink.type


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return ""
