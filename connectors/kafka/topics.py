"""Requests about topics: which exist, their partitions, and their first and last offsets."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from connectors.kafka.clients import Client, admin_client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.errors import error_kind
from etl.api import ComponentError, nearest

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from connectors.kafka.offset_ranges import OffsetRanges

LEGAL_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
"""Topic names that Kafka accepts."""

GONE_SECONDS = 10.0
"""How long a topic must be missing until it counts as deleted: a broker that has just started knows no topics."""


class TopicVanishedError(ConnectionError):
    """A topic is missing that existed before. Temporary: a broker that has just started reports it until it has read its
    metadata.
    """


class Topic(NamedTuple):
    """A topic that exists."""

    id: str
    """Changes when the topic is deleted and created again; empty if brokers give no ids."""
    partitions: int


Partition = tuple[str, int]
"""Topic and partition number."""


@dataclass(frozen=True)
class TopicSelection:
    """The topics to read: by name, or all whose whole name matches a pattern."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    _matches: Callable[[str], Any] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matches", re.compile(self.pattern).fullmatch)

    def find(self, settings: ClientSettings) -> dict[str, Topic]:
        """Return the topics that exist, sorted by name."""
        client = admin_client(settings)
        names: Iterable[str] = self.names
        if self.pattern:
            names = [name for name in list_topic_names(client) if self._matches(name) and not name.startswith("__")]
        return describe_topics(client, sorted(names))

    def find_all(self, settings: ClientSettings) -> dict[str, Topic]:
        """Like `find`; raises ComponentError if a topic given by name is missing."""
        topics = self.find(settings)
        for name in self.names:
            if name not in topics:
                raise ComponentError(missing_topic_message(settings, name))
        return topics


def missing_topic_message(settings: ClientSettings, name: str) -> str:
    """Return the message for a missing topic, with the most similar name."""
    others = list_topic_names(admin_client(settings))
    hint = creation_hint(name, others)
    return f"kafka {settings.servers}: there is no topic {name!r}; {hint}"


def creation_hint(name: str, others: Sequence[str]) -> str:
    """Return a hint for a topic that is not among ``others``, the topics that this user may see."""
    known = nearest(name, others) or ("" if others else "it holds no topic that this user may see")
    return f"{known}{'; ' if known else ''}the option create: {{partitions: 8, replication: 1}} creates it"


def list_topic_names(client: Client) -> list[str]:
    """List the topics that this user may see. (A request for a single topic could create it.)"""
    return sorted(client.call(lambda seconds: client.raw.list_topics(timeout=seconds)).topics)


def describe_topics(client: Client, names: Sequence[str]) -> dict[str, Topic]:
    """Return those of the topics that exist."""
    from confluent_kafka import KafkaException, TopicCollection

    if not names:
        return {}

    def ask(seconds: float) -> dict[str, Topic]:
        found: dict[str, Topic] = {}
        futures = client.raw.describe_topics(TopicCollection(list(names)), request_timeout=seconds)
        for name, future in futures.items():
            try:
                topic = future.result()
            except KafkaException as raised:
                if raised.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
                    raise
            else:
                id_ = str(topic.topic_id) if topic.topic_id else ""
                found[name] = Topic(id_, len(topic.partitions))
        return found

    return client.call(ask)


def fetch_begin_offsets(settings: ClientSettings, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return the first offset that each partition still has."""
    return fetch_offsets(settings, dict.fromkeys(partitions, _offset_spec("earliest")))


def fetch_end_offsets(settings: ClientSettings, partitions: Iterable[Partition], committed: bool = True) -> dict[Partition, int]:
    """Return the offset after the last message; with ``committed`` that of the first message of an open transaction."""
    return fetch_offsets(settings, dict.fromkeys(partitions, _offset_spec("latest")), committed)


def fetch_offsets_at(settings: ClientSettings, partitions: Iterable[Partition], millis: int) -> dict[Partition, int]:
    """Return the offset of the first message at or after a time; the end of the partition if there is none."""
    found = fetch_offsets(settings, dict.fromkeys(partitions, _offset_spec("for_timestamp", millis)))
    late = [partition for partition, offset in found.items() if offset < 0]
    return {**found, **fetch_end_offsets(settings, late)}


def fetch_offsets(settings: ClientSettings, specs: Mapping[Partition, Any], committed: bool = True) -> dict[Partition, int]:
    """Return an offset for each partition, with one request a broker."""
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

    if not specs:
        return {}
    client = admin_client(settings)
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    requested = {TopicPartition(*partition): spec for partition, spec in specs.items()}

    def ask(seconds: float) -> dict[Partition, int]:
        futures: Mapping[TopicPartition, Any] = client.raw.list_offsets(requested, isolation_level=level, request_timeout=seconds)
        return {(partition.topic, partition.partition): future.result().offset for partition, future in futures.items()}

    try:
        return client.call(ask)
    except ComponentError as error:
        cause = error.__context__
        if isinstance(cause, KafkaException) and error_kind(cause.args[0]) == "unknown-topic":
            raise TopicVanishedError(str(error)) from None
        raise


def _offset_spec(name: str, *arguments: int) -> Any:
    """Return the client's specification of an offset."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    return getattr(OffsetSpec, name)(*arguments)


@dataclass
class TopicDiscovery:
    """The topics that were found last. One object a planner process."""

    settings: ClientSettings
    selection: TopicSelection
    clock: Callable[[], float] = time.monotonic
    _searched_at: float | None = None
    _topics: dict[str, Topic] = field(default_factory=dict)
    _missing: dict[str, float] = field(default_factory=dict)

    def topics(self, begin: OffsetRanges, every: float) -> dict[str, Topic]:
        """Return the topics that exist; list them again after ``every`` seconds.

        Raises TopicVanishedError if a topic is missing, possibly only for a moment.
        """
        now = self.clock()
        if self._searched_at is None or now - self._searched_at >= every:
            self._topics, self._searched_at = self.selection.find(self.settings), now
        missing = [name for name in begin.topics if name not in self._topics]
        self._missing = {name: self._missing.get(name, now) for name in missing}
        for name, since in self._missing.items():
            if now - since < GONE_SECONDS:
                self._searched_at = None
                raise TopicVanishedError(f"kafka {self.settings.servers}: there is no topic {name!r} any more")
        return self._topics

    def invalidate(self) -> None:
        """Make the next call list the topics again."""
        self._searched_at = None


@lru_cache(maxsize=64)
def topic_discovery(settings: ClientSettings, selection: TopicSelection) -> TopicDiscovery:
    """Return the discovery of this process for these topics."""
    return TopicDiscovery(settings, selection)
