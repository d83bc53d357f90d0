"""Rejects events that cannot become messages, before anything is sent, and the same way on every attempt.

A split that is repeated after a crash and found in the ledger must give the same dead letters, without being sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.message_encoding import MessageEncoding
from connectors.kafka.topic_limits import TopicLimits, fetch_topic_limits, require_topic
from connectors.kafka.topic_template import is_legal_topic
from etl.api import Rejects, last_of_keys


class SendableEvents(NamedTuple):
    """The events of a batch that can be sent, and the rejects."""

    batch: pa.RecordBatch
    rows: pa.Int64Array
    """Row of each event in the incoming batch."""
    topics: pa.DictionaryArray
    limits: Mapping[str, TopicLimits]
    rejected: list[Rejects]


def reject_unsendable(batch: pa.RecordBatch, encoding: MessageEncoding, settings: ClientSettings) -> SendableEvents:
    """Reject events without a legal topic that exists, events that are too large for their topic, and those without a key
    that it needs.
    """
    if encoding.topic.is_fixed:
        require_topic(settings, encoding.topic.template)
    rows = pa.array(range(batch.num_rows), pa.int64())
    if encoding.replaces_rows(batch):  # of a key only the last change counts
        rows = pa.array(last_of_keys(batch, encoding.key))
        batch = batch.take(rows)
    sendable = SendableEvents(batch, rows, encoding.topic.topic_names(batch), {}, [])
    for reject in (_reject_illegal_topics, _reject_unknown_topics, _reject_too_large, _reject_null_keys):
        sendable = reject(sendable, encoding, settings)
    return sendable


def _reject_illegal_topics(sendable: SendableEvents, encoding: MessageEncoding, settings: ClientSettings) -> SendableEvents:
    """Reject events whose topic name Kafka does not accept; fetch the limits of the other topics."""
    if not encoding.topic.is_fixed:
        good = pc.fill_null(is_legal_topic(sendable.topics.dictionary).take(sendable.topics.indices), False)
        sendable = _reject(sendable, good, "bad-topic", lambda _, names: _topic_reasons(names, "is not a legal topic name"))
    return sendable._replace(limits={name: fetch_topic_limits(settings, name) for name in sendable.topics.dictionary.to_pylist()})


def _reject_unknown_topics(sendable: SendableEvents, encoding: MessageEncoding, settings: ClientSettings) -> SendableEvents:
    if all(one.exists for one in sendable.limits.values()):
        return sendable
    good = _per_event(sendable, lambda one: one.exists, pa.bool_())
    return _reject(sendable, good, "unknown-topic", lambda _, names: _topic_reasons(names, "does not exist"))


def _reject_too_large(sendable: SendableEvents, encoding: MessageEncoding, settings: ClientSettings) -> SendableEvents:
    def reason(events: pa.RecordBatch, names: pa.Array) -> pa.Array:
        sizes_and_topics = zip(encoding.sizes(events).to_pylist(), names.to_pylist(), strict=True)
        texts = [f"{size} bytes, but topic {name!r} allows {sendable.limits[name].max_bytes}" for size, name in sizes_and_topics]
        return pa.array([f"value, key and headers have {text}" for text in texts], pa.string())

    good = pc.less_equal(encoding.sizes(sendable.batch), _per_event(sendable, lambda one: one.max_bytes, pa.int64()))
    return _reject(sendable, good, "event-too-large", reason)


def _reject_null_keys(sendable: SendableEvents, encoding: MessageEncoding, settings: ClientSettings) -> SendableEvents:
    if not any(one.needs_key for one in sendable.limits.values()):
        return sendable
    good = pc.or_(encoding.has_key(sendable.batch), pc.invert(_per_event(sendable, lambda one: one.needs_key, pa.bool_())))
    return _reject(sendable, good, "null-key", lambda _, names: _topic_reasons(names, "is compacted: a message needs a key"))


def _reject(
    sendable: SendableEvents, good: pa.BooleanArray, code: str, reason: Callable[[pa.RecordBatch, pa.Array], pa.Array]
) -> SendableEvents:
    """Move the events that are not ``good`` to the rejects."""
    if not good.false_count:
        return sendable
    bad = pc.invert(good)
    events = sendable.batch.filter(bad)
    rejects = Rejects(events, code, reason(events, sendable.topics.filter(bad).cast(pa.string())))
    topics = sendable.topics.filter(good).cast(pa.string()).dictionary_encode()
    rows, rejected = sendable.rows.filter(good), [*sendable.rejected, rejects]
    return sendable._replace(batch=sendable.batch.filter(good), rows=rows, topics=topics, rejected=rejected)


def _per_event(sendable: SendableEvents, what: Callable[[TopicLimits], bool | int], type_: pa.DataType) -> pa.Array:
    """Return a property of its topic for each event."""
    return pa.array([what(sendable.limits[name]) for name in sendable.topics.dictionary.to_pylist()], type_).take(
        sendable.topics.indices
    )


def _topic_reasons(names: pa.Array, text: str) -> pa.Array:
    return pc.binary_join_element_wise("topic '", pc.fill_null(names, ""), f"' {text}", "")
