"""What a cluster holds now: topics, their partitions, and the offsets at which these begin and end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from connectors.kafka.access import Settings
from connectors.kafka.clients import Client, admin
from connectors.kafka.failures import kind_of
from etl.api import ComponentError, nearest

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

LEGAL_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
"""What a topic may be called."""


class VanishedError(ConnectionError):
    """A topic that was there is not; a broker that has just started says so too, until it knows better."""


class Topic(NamedTuple):
    """A topic that exists."""

    id: str
    """Another one when it is deleted and made again; empty where brokers give none."""
    partitions: int


Partition = tuple[str, int]
"""Topic and number."""


@dataclass(frozen=True)
class Wanted:
    """The topics to read: by name, or all whose whole name matches a pattern."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    _matches: Callable[[str], Any] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matches", re.compile(self.pattern).fullmatch)

    def found(self, settings: Settings) -> dict[str, Topic]:
        """Those that are there, by name in order."""
        client = admin(settings)
        names: Iterable[str] = self.names
        if self.pattern:
            names = [name for name in names_of(client) if self._matches(name) and not name.startswith("__")]
        return described(client, sorted(names))

    def all(self, settings: Settings) -> dict[str, Topic]:
        """The same; raises ComponentError where one that is named is missing."""
        topics = self.found(settings)
        for name in self.names:
            if name not in topics:
                raise ComponentError(missing(settings, name))
        return topics


def missing(settings: Settings, name: str) -> str:
    """That a topic does not exist, with the most similar one."""
    others = names_of(admin(settings))
    hint = creation_hint(name, others)
    return f"kafka {settings.servers}: there is no topic {name!r}; {hint}"


def creation_hint(name: str, others: Sequence[str]) -> str:
    """What to do about a topic that is not among ``others``, the topics that this user may see."""
    known = nearest(name, others) or ("" if others else "it holds no topic that this user may see")
    return f"{known}{'; ' if known else ''}the option create: {{partitions: 8, replication: 1}} creates it"


def names_of(client: Client) -> list[str]:
    """All topics that we may see. (Asking for one by name could create it.)"""
    return sorted(client.asked(lambda seconds: client.the.list_topics(timeout=seconds)).topics)


def described(client: Client, names: Sequence[str]) -> dict[str, Topic]:
    """Of these topics those that exist."""
    from confluent_kafka import KafkaException, TopicCollection

    if not names:
        return {}

    def ask(seconds: float) -> dict[str, Topic]:
        found: dict[str, Topic] = {}
        futures = client.the.describe_topics(TopicCollection(list(names)), request_timeout=seconds)
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

    return client.asked(ask)


def begins(settings: Settings, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """The first offset that each partition still has."""
    return offsets(settings, dict.fromkeys(partitions, _spec("earliest")))


def ends(settings: Settings, partitions: Iterable[Partition], committed: bool = True) -> dict[Partition, int]:
    """The offset behind the last message, or in front of the first that a transaction has not committed."""
    return offsets(settings, dict.fromkeys(partitions, _spec("latest")), committed)


def at_time(settings: Settings, partitions: Iterable[Partition], millis: int) -> dict[Partition, int]:
    """The first offset of a message from then on; the end where there is none."""
    found = offsets(settings, dict.fromkeys(partitions, _spec("for_timestamp", millis)))
    late = [partition for partition, offset in found.items() if offset < 0]
    return {**found, **ends(settings, late)}


def offsets(settings: Settings, specs: Mapping[Partition, Any], committed: bool = True) -> dict[Partition, int]:
    """An answer for each partition, with one request to each broker."""
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

    if not specs:
        return {}
    client = admin(settings)
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    wanted = {TopicPartition(*partition): spec for partition, spec in specs.items()}

    def ask(seconds: float) -> dict[Partition, int]:
        futures: Mapping[TopicPartition, Any] = client.the.list_offsets(wanted, isolation_level=level, request_timeout=seconds)
        return {(place.topic, place.partition): future.result().offset for place, future in futures.items()}

    try:
        return client.asked(ask)
    except ComponentError as error:
        cause = error.__context__
        if isinstance(cause, KafkaException) and kind_of(cause.args[0]) == "unknown-topic":
            raise VanishedError(str(error)) from None
        raise


def _spec(name: str, *arguments: int) -> Any:
    """Which offset is asked for."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    return getattr(OffsetSpec, name)(*arguments)
