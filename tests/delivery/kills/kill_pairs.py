"""The pairs of sources and sinks of the kill tests, the guarantee that each pair claims, and the few pairs of a short test.

A new connector is added as a row in `SOURCES` or `SINKS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import kill_clickhouse as clickhouse
import kill_database as database
import kill_elasticsearch as elasticsearch
import kill_kafka as kafka
from kill_files import FileInput, FileOutput, StreamInput, StreamOutput, SyslogInput
from kill_http import HttpOutput
from kill_journald import JournaldInput
from kill_lake import DeltaOutput, IcebergOutput
from kill_mqtt import MqttInput, MqttOutput
from kill_redis import RedisInput, RedisOutput
from kill_rocketmq import RocketmqInput, RocketmqOutput
from kill_table import SinkRow, SourceRow

from etl.api import Guarantee

SOURCES = (
    SourceRow("kafka", kafka.KafkaInput, ("kafka",)),
    SourceRow("file", FileInput, ordered=True),
    SourceRow("rocketmq", RocketmqInput, ("rocketmq",)),
    SourceRow("postgres", database.followed("postgres"), ("postgres",)),
    SourceRow("opensearch", elasticsearch.followed("opensearch"), ("opensearch",)),
    SourceRow("syslog", SyslogInput, receives=True, ordered=True),
    SourceRow("mariadb-whole", database.whole("mariadb"), ("mariadb",), whole=True),
    SourceRow(
        "elasticsearch-whole", elasticsearch.whole("elasticsearch"), ("elasticsearch",), whole=True, loses_input_on_restart=True
    ),
    SourceRow("stream", StreamInput, ordered=True),
    SourceRow("journald", JournaldInput, ordered=True),
    SourceRow("redis", RedisInput, ("redis",)),
    SourceRow("mqtt", MqttInput, ("mosquitto",), loses_input_on_restart=True),
    SourceRow("postgres-unordered", database.unordered("postgres"), ("postgres",), "at least once", whole=True),
)
SINKS = (
    SinkRow("kafka", kafka.exactly_once, ("kafka",)),
    SinkRow("file", FileOutput, ordered=True),
    SinkRow("mariadb", database.rows("mariadb", "insert"), ("mariadb",)),
    SinkRow("opensearch", elasticsearch.documents("opensearch"), ("opensearch",), shows_repeats=False),
    SinkRow("postgres", database.rows("postgres", "insert"), ("postgres",)),
    SinkRow("sqlite", database.rows("sqlite", "insert")),
    SinkRow("rocketmq", RocketmqOutput, ("rocketmq",)),
    SinkRow("http", HttpOutput),
    SinkRow("clickhouse", clickhouse.TableOutput, ("clickhouse",)),
    SinkRow("stream", StreamOutput, ordered=True),
    SinkRow("redis", RedisOutput, ("redis",)),
    SinkRow("mqtt", MqttOutput, ("mosquitto",), loses_output_on_restart=True),
    SinkRow("elasticsearch", elasticsearch.documents("elasticsearch"), ("elasticsearch",), shows_repeats=False),
    SinkRow("kafka-at-least-once", kafka.at_least_once, ("kafka",)),
    SinkRow("mariadb-upsert", database.rows("mariadb", "upsert"), ("mariadb",), shows_repeats=False),
    SinkRow("postgres-upsert", database.rows("postgres", "upsert"), ("postgres",), shows_repeats=False),
    SinkRow("sqlite-upsert", database.rows("sqlite", "upsert"), shows_repeats=False),
    SinkRow("lake-delta", DeltaOutput),
    SinkRow("lake-iceberg", IcebergOutput),
)
WITHOUT_KILL_TESTS = {
    "stdin": "bytes in the pipe are lost when the process is killed",
    "generate": "the run itself generates the events",
    "inline": "the rows stand in the pipeline file",
    "spark": "sources of Spark",
    "console": "a terminal",
    "discard": "it has no output",
    "beats": "killed with a sender that counts acknowledgements: tests/connectors/shared/test_receivers_killed.py",
    "forward": "killed with a sender that counts acknowledgements: tests/connectors/shared/test_receivers_killed.py",
    "splunk_hec": "it sends requests as the sink http does, which has a row",
    "opentelemetry": "it sends requests as the sink http does, which has a row",
    "email": "it sends messages as the sink chat does",
    "chat": "tests/connectors/alerts/test_chat_sink.py commits again; a digest does not show which events it has",
    "loki": "it sends requests as the sink http does, which has a row",
}
"""Components without a row, and the reasons."""


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
    def not_restarted(self) -> tuple[str, ...]:
        """Servers that must not be restarted."""
        lost = [self.source.servers] if self.source.loses_input_on_restart else []
        lost += [self.sink.servers] if self.sink.loses_output_on_restart else []
        return tuple(name for names in lost for name in names)

    @property
    def ordered(self) -> bool:
        return self.source.ordered and self.sink.ordered

    def claim(self, sink_guarantee: Guarantee) -> Guarantee:
        """Return the weaker guarantee of source and sink; ``sink_guarantee`` is that of the sink with its options."""
        return sink_guarantee if self.source.guarantee == "exactly once" else self.source.guarantee


def every_pair() -> Iterator[Pair]:
    """Yield the pairs along the diagonals of the table: an interrupted series has tested each row about equally often."""
    for step in range(len(SINKS)):
        for number, source in enumerate(SOURCES):
            yield Pair(source, SINKS[(number + step) % len(SINKS)])


def pairs_named(names: Sequence[str]) -> Sequence[Pair]:
    """Return the pairs with these names, or all. Raises KeyError for an unknown name."""
    pairs = {pair.name: pair for pair in every_pair()}
    return [pairs[name] for name in names] or list(pairs.values())


def groups_of(pairs: Iterable[Pair], size: int) -> Sequence[Sequence[Pair]]:
    """Group pairs by source, at most ``size`` in a group."""
    of_source: dict[str, list[Pair]] = {}
    for pair in pairs:
        of_source.setdefault(pair.source.name, []).append(pair)
    return [found[at : at + size] for found in of_source.values() for at in range(0, len(found), size)]


SOURCES_TOGETHER = 3
"""Sources of one pipeline in the few groups."""


def few_groups() -> Sequence[Sequence[Pair]]:
    """Return pairs that have each source and each sink at least once, grouped by source. Sources that are followed share a
    pipeline with others: a run that is killed costs more than what it reads."""
    longer = range(max(len(SOURCES), len(SINKS)))
    groups = groups_of((Pair(SOURCES[number % len(SOURCES)], SINKS[number % len(SINKS)]) for number in longer), len(SINKS))
    followed = [group for group in groups if not (group[0].source.whole or group[0].source.receives)]
    alone = [group for group in groups if group not in followed]
    return [*map(list, map(chain.from_iterable, batched(followed, SOURCES_TOGETHER))), *alone]


def batched(groups: Sequence[Sequence[Pair]], size: int) -> Iterator[Sequence[Sequence[Pair]]]:
    """Yield parts of a sequence."""
    return (groups[at : at + size] for at in range(0, len(groups), size))
