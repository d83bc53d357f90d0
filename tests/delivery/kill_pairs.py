"""Which sources and sinks are tried against each other, what their pairs claim, and which stand for all in a short trial.

A new connector joins with a row in `SOURCES` or `SINKS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import kill_database as database
import kill_elasticsearch as elasticsearch
import kill_kafka as kafka
from kill_files import FileCatch, FileFeed, SyslogFeed
from kill_http import HttpCatch
from kill_rocketmq import RocketmqCatch, RocketmqFeed
from kill_table import SinkRow, SourceRow

from etl.api import Guarantee

SOURCES = (
    SourceRow("kafka", kafka.KafkaFeed, ("kafka",)),
    SourceRow("file", FileFeed, ordered=True),
    SourceRow("rocketmq", RocketmqFeed, ("rocketmq",)),
    SourceRow("postgres", database.followed("postgres"), ("postgres",)),
    SourceRow("opensearch", elasticsearch.followed("opensearch"), ("opensearch",)),
    SourceRow("syslog", SyslogFeed, receives=True, ordered=True),
    SourceRow("mariadb-whole", database.whole("mariadb"), ("mariadb",), whole=True),
    SourceRow("elasticsearch-whole", elasticsearch.whole("elasticsearch"), ("elasticsearch",), whole=True, forgetful=True),
    SourceRow("postgres-unordered", database.unordered("postgres"), ("postgres",), "at least once", whole=True),
)
SINKS = (
    SinkRow("kafka", kafka.exactly_once, ("kafka",)),
    SinkRow("file", FileCatch, ordered=True),
    SinkRow("mariadb", database.rows("mariadb", "insert"), ("mariadb",)),
    SinkRow("opensearch", elasticsearch.documents("opensearch"), ("opensearch",), shows_repeats=False),
    SinkRow("postgres", database.rows("postgres", "insert"), ("postgres",)),
    SinkRow("sqlite", database.rows("sqlite", "insert")),
    SinkRow("rocketmq", RocketmqCatch, ("rocketmq",)),
    SinkRow("http", HttpCatch),
    SinkRow("elasticsearch", elasticsearch.documents("elasticsearch"), ("elasticsearch",), shows_repeats=False),
    SinkRow("kafka-at-least-once", kafka.at_least_once, ("kafka",)),
    SinkRow("mariadb-upsert", database.rows("mariadb", "upsert"), ("mariadb",), shows_repeats=False),
    SinkRow("postgres-upsert", database.rows("postgres", "upsert"), ("postgres",), shows_repeats=False),
    SinkRow("sqlite-upsert", database.rows("sqlite", "upsert"), shows_repeats=False),
)
ELSEWHERE = {
    "stdin": "what is in the pipe when the process is killed is lost with the pipe",
    "generate": "its events are made by the run itself",
    "spark": "Spark's own sources",
    "console": "a terminal",
    "discard": "nothing comes out",
}
"""Components without a row, and why."""


@dataclass(frozen=True)
class Pair:
    """A source and a sink."""

    source: SourceRow
    sink: SinkRow

    @property
    def name(self) -> str:
        return f"{self.source.name}-to-{self.sink.name}"

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.source.servers + self.sink.servers))

    @property
    def spared(self) -> tuple[str, ...]:
        """Servers that are not to be struck."""
        return self.source.servers if self.source.forgetful else ()

    @property
    def ordered(self) -> bool:
        return self.source.ordered and self.sink.ordered

    def claim(self, of_sink: Guarantee) -> Guarantee:
        """As good as the weaker of both; ``of_sink`` is what the sink says of its options."""
        return of_sink if self.source.nature == "exactly once" else self.source.nature


def every_pair() -> Iterator[Pair]:
    """The diagonals of the table one behind the other: an unfinished series has tried each row as often as it could."""
    for step in range(len(SINKS)):
        for number, source in enumerate(SOURCES):
            yield Pair(source, SINKS[(number + step) % len(SINKS)])


def pairs_named(names: Sequence[str]) -> Sequence[Pair]:
    """The pairs of these names, or all. Raises KeyError at one that is none."""
    pairs = {pair.name: pair for pair in every_pair()}
    return [pairs[name] for name in names] or list(pairs.values())


def groups_of(pairs: Iterable[Pair], size: int) -> Sequence[Sequence[Pair]]:
    """Pairs of one source together, at most ``size`` of them."""
    of_source: dict[str, list[Pair]] = {}
    for pair in pairs:
        of_source.setdefault(pair.source.name, []).append(pair)
    return [found[at : at + size] for found in of_source.values() for at in range(0, len(found), size)]


def few_groups() -> Sequence[Sequence[Pair]]:
    """Pairs that have each source and each sink at least once, those of one source together."""
    longer = range(max(len(SOURCES), len(SINKS)))
    return groups_of((Pair(SOURCES[number % len(SOURCES)], SINKS[number % len(SINKS)]) for number in longer), len(SINKS))
