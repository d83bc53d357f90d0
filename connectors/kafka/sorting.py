"""Which events of a batch can become messages at all: known before anything is sent, and the same each time.

What is written again after a crash, and found in the ledger, must give the same dead letters without being sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from connectors.kafka.access import Settings
from connectors.kafka.encoding import Encoding
from connectors.kafka.limits import Limits, fixed_topic, limits
from connectors.kafka.naming import is_legal
from etl.api import Rejects


class Sorted(NamedTuple):
    """A batch without what no topic takes."""

    batch: pa.RecordBatch
    rows: pa.Int64Array
    """Where its events stood in the batch that came."""
    topics: pa.DictionaryArray
    limits: Mapping[str, Limits]
    rejected: list[Rejects]


def sorted_out(batch: pa.RecordBatch, encoding: Encoding, settings: Settings) -> Sorted:
    """Take out events without a legal topic that exists, those that are too large for theirs, and those that lack a key."""
    if encoding.topic.is_fixed:
        fixed_topic(settings, encoding.topic.template)
    rows = pa.array(range(batch.num_rows), pa.int64())
    left = Sorted(batch, rows, encoding.topic.names(batch), {}, [])
    for look in (_illegal, _unknown, _large, _keyless):
        left = look(left, encoding, settings)
    return left


def _illegal(left: Sorted, encoding: Encoding, settings: Settings) -> Sorted:
    """Names that Kafka does not accept; the others' limits are looked up."""
    if not encoding.topic.is_fixed:
        good = pc.fill_null(is_legal(left.topics.dictionary).take(left.topics.indices), False)
        left = _without(left, good, "bad-topic", lambda _, names: _quoted(names, "is no name that a topic can have"))
    return left._replace(limits={name: limits(settings, name) for name in left.topics.dictionary.to_pylist()})


def _unknown(left: Sorted, encoding: Encoding, settings: Settings) -> Sorted:
    if all(one.exists for one in left.limits.values()):
        return left
    good = _each(left, lambda one: one.exists, pa.bool_())
    return _without(left, good, "unknown-topic", lambda _, names: _quoted(names, "does not exist"))


def _large(left: Sorted, encoding: Encoding, settings: Settings) -> Sorted:
    def reason(events: pa.RecordBatch, names: pa.Array) -> pa.Array:
        said = zip(encoding.sizes(events).to_pylist(), names.to_pylist(), strict=True)
        texts = [f"{size} bytes, and topic {name!r} takes {left.limits[name].max_bytes}" for size, name in said]
        return pa.array([f"value, key and headers have {text}" for text in texts], pa.string())

    good = pc.less_equal(encoding.sizes(left.batch), _each(left, lambda one: one.max_bytes, pa.int64()))
    return _without(left, good, "event-too-large", reason)


def _keyless(left: Sorted, encoding: Encoding, settings: Settings) -> Sorted:
    if not any(one.needs_key for one in left.limits.values()):
        return left
    good = pc.or_(encoding.keyed(left.batch), pc.invert(_each(left, lambda one: one.needs_key, pa.bool_())))
    return _without(left, good, "null-key", lambda _, names: _quoted(names, "is compacted: it takes no message without a key"))


def _without(left: Sorted, good: pa.BooleanArray, code: str, reason: Callable[[pa.RecordBatch, pa.Array], pa.Array]) -> Sorted:
    """Without the events that are not good: they go to the dead letters."""
    if not good.false_count:
        return left
    bad = pc.invert(good)
    events = left.batch.filter(bad)
    rejects = Rejects(events, code, reason(events, left.topics.filter(bad).cast(pa.string())))
    topics = left.topics.filter(good).cast(pa.string()).dictionary_encode()
    rows, rejected = left.rows.filter(good), [*left.rejected, rejects]
    return left._replace(batch=left.batch.filter(good), rows=rows, topics=topics, rejected=rejected)


def _each(left: Sorted, what: Callable[[Limits], bool | int], type_: pa.DataType) -> pa.Array:
    """Something about its topic for each event."""
    return pa.array([what(left.limits[name]) for name in left.topics.dictionary.to_pylist()], type_).take(left.topics.indices)


def _quoted(names: pa.Array, text: str) -> pa.Array:
    return pc.binary_join_element_wise("topic '", pc.fill_null(names, ""), f"' {text}", "")
