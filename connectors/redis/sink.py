"""The `redis` sink."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import ClassVar, Literal

from pydantic import Field

from connectors.redis.cluster_writer import ClusterWriter
from connectors.redis.connection_options import ServerOptions, probe_server
from connectors.redis.writer import EventEncoding, RedisWriter, delete_entries, ledger_key
from connectors.shared.ledger_cleaner import LedgerCleaner
from connectors.shared.text_template import TextTemplate, check_fields, check_templates
from etl.api import Batching, Committer, Duration, FieldName, Finding, Guarantee, Schema, Sink, Task, visible

MAX_FIELDS = 3_500
"""Fields of an event that is an entry or a hash: a command of Redis' scripts takes about 8,000 arguments, two a field."""


class RedisSink(ServerOptions, Sink):
    """Write events to Redis or Valkey: to streams, lists, strings, hashes or channels.

    | kind | command | an event is | written twice |
    |---|---|---|---|
    | stream | `XADD` | an entry with a field for each field that is not null, or with ``value_field`` only `message` | never |
    | list | `RPUSH` | JSON, or ``value_field`` | never |
    | string | `SET` | JSON, or ``value_field``; the last event of a key stays | without effect |
    | hash | `HSET` | a field for each field that is not null | without effect |
    | channel | `PUBLISH` | JSON, or ``value_field``; only who is subscribed gets it | may be |

    Exactly once: a batch is written by a script that also stores the position of its last event, under a key of the split
    (``sluice:PIPELINE:SINK:ledger:…``). A batch whose answer was lost, and a split that is written again after a kill, finds the
    position, and only the events after it are written. Entries of the ledger are deleted after the next micro-batch, and expire
    after seven days; a database that is emptied, or evicts keys, loses them. Redis must keep what it has answered: with
    ``appendfsync everysec``, the default of ``appendonly``, a crash of the server loses up to a second of events, without
    ``appendonly`` more; a failover loses what the replica does not have. Results of steps that Spark computes have no order by
    which the ledger could know them: they are written at least once, as with ``delivery: at_least_once``. Channels have no
    guarantee.

    A field name in braces in ``key`` is replaced by the field's value. Events of a split keep their order. Parallelism: splits.
    A batch of 1,000 events keeps the server busy for some milliseconds. The user needs the command itself, `EVALSHA`,
    `SCRIPT LOAD`, `GET`, `SET`, `TYPE` and `UNLINK`, and keys that begin with ``sluice:``. Needs the extra ``sluice-etl[redis]``.

    With ``sentinel`` the sink asks Redis Sentinel for the master, again after each failover. In a ``cluster`` a script has
    keys of one hash slot: a batch is a script for each slot of its keys, and each slot has its own entry in the ledger, so that
    it stays exactly once. Keys that have the same part in braces share a slot, and 1,000 keys without take 1,000 scripts a batch.

    Dead letters: ``null-key`` (a field of the key is null), ``null-value`` (nothing to store). A key of another type, a refused
    login or a missing permission ends the run without loss. While the server is down or out of memory, the sink retries.

    ```yaml
    type: redis
    url: redis://localhost:6379/0
    key: alerts
    kind: stream
    max_length: 1000000
    ```
    """

    type: Literal["redis"] = "redis"
    key: str = Field(
        description="Key of the stream, list, string, hash or channel; `{field}` is replaced.",
        min_length=1,
        examples=["alerts", "last-seen:{host.name}"],
    )
    kind: Literal["stream", "list", "string", "hash", "channel"] = Field(default="stream", description="What the key holds.")
    value_field: FieldName | None = Field(
        default=None, description="Field whose text or bytes are the value; without it all fields.", examples=["message"]
    )
    max_length: int | None = Field(
        default=None, description="About how many entries a stream keeps; older ones are deleted.", ge=1, examples=[1_000_000]
    )
    expiry: Duration | None = Field(
        default=None,
        description="How long a string or hash is kept after it was written.",
        ge=timedelta(milliseconds=1),
        examples=["1h"],
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once", description="Whether a ledger prevents that a crash repeats events."
    )
    batch: Batching = Field(default=Batching(max_events=1000, max_bytes=4 << 20), description="When buffered events are written.")

    guarantee: ClassVar[Guarantee] = "exactly once"

    def guaranteed(self) -> Guarantee:
        """Return what kind and delivery allow."""
        if self.kind == "channel":
            return "none"
        return "exactly once" if self.delivery == "exactly_once" else "at least once"

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check the address, and that fields exist and options have an effect."""
        yield from self.check_connection_options()
        known = visible(incoming)
        yield from check_templates({("key",): self.key}, known)
        yield from check_fields([(("value_field",), self.value_field)], known)
        if self.kind in ("stream", "hash") and self.value_field is None and len(known.names) > MAX_FIELDS:
            message = f"{len(known.names):,} fields are more than an event can have here, {MAX_FIELDS:,}"
            yield Finding("maximum", message, ("kind",), "drop some before the sink, or set value_field")
        if self.max_length is not None and self.kind != "stream":
            yield Finding(
                "unused-option", f"max_length is of streams, and kind is {self.kind}", ("max_length",), "write kind: stream"
            )
        if self.expiry is not None and self.kind not in ("string", "hash"):
            hint = "write kind: string or kind: hash"
            yield Finding("unused-option", f"expiry is of strings and hashes, and kind is {self.kind}", ("expiry",), hint)

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the server answers and accepts the login."""
        return probe_server(self.settings())

    def writes(self) -> Iterable[str]:
        """Return the key at its server; a field stands for its values."""
        settings = self.settings()
        key = "".join(TextTemplate.parse(self.key).pieces)
        return [f"redis://{settings.host}:{settings.port}/{settings.database}/{key}"]

    def open(self, task: Task) -> RedisWriter | ClusterWriter:
        """Return a writer, which connects with the first batch."""
        millis = None if self.expiry is None else int(self.expiry.total_seconds() * 1000)
        encoding = EventEncoding(TextTemplate.parse(self.key), self.kind, self.value_field, self.max_length, millis)
        has_ledger = self.guaranteed() == "exactly once" and task.ordered
        writer = RedisWriter(self.settings(), encoding, ledger_key(task) if has_ledger else None)
        return ClusterWriter(writer) if self.cluster else writer

    def committer(self, folder: str) -> Committer | None:
        """Return the committer that deletes entries of the ledger."""
        if self.guaranteed() != "exactly once":
            return None
        return LedgerCleaner(partial(delete_entries, self.settings()), folder)
