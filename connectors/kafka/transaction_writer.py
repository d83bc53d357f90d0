"""The writer that delivers exactly once: one transaction a split, which contains the split's ledger entry.

A task cannot prepare a transaction for the driver to commit, so the task commits it. The ledger shows the next attempt at the
same split (after a crash, or because another sink failed) that it is written: that attempt sends nothing. The order is: take
the transactional id, which fences its former holder; read the ledger; send; add the entry; commit. A split without events to
send does none of this.

Killed before the commit: brokers abort the transaction when its id is used next, and the split is written again. Killed after
it: the entry exists. If the answer to the commit is lost, the next attempt reads the ledger. Tasks with several splits of one
partition each have their own id, transaction and entry, and do not wait for each other. A micro-batch that is planned again
has the same splits; if its tasks are numbered differently (the sources are in another order in the file), entries are still
found, because they do not depend on the number.

Whether an event can be sent is decided before (`sendable_events`), so a split that is already written gives the same dead
letters again. What a broker rejects nevertheless fails the transaction and ends the run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.kafka.batch_sender import BatchSender, min_batch_bytes
from connectors.kafka.clients import Client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.errors import MESSAGE_ERRORS, describe_error, to_exception
from connectors.kafka.ledger import LedgerEntry
from connectors.kafka.message_encoding import MessageEncoding
from connectors.kafka.producer_pool import PRODUCER_POOL
from connectors.kafka.sendable_events import SendableEvents, reject_unsendable
from etl.api import ComponentError, Result, SplitLostError, Staged, Task

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

log = logging.getLogger("sluice.kafka")


@dataclass
class TransactionWriter:
    """Sends each batch immediately, in a transaction that ends with the split. Memory: one encoded batch."""

    encoding: MessageEncoding
    settings: ClientSettings
    conf: tuple[tuple[str, str], ...]
    task: Task
    name: str = field(init=False)
    _client: Client | None = None
    _written: int | None = None
    """Number of messages according to the ledger; None if the split is not written yet."""
    _sent: int = 0
    _topic: str = ""

    def __post_init__(self) -> None:
        self.name = PRODUCER_POOL.reserve_name(self.task)
        self.entry = LedgerEntry.for_task(self.task)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return bytes of value, key and headers of each event."""
        return self.encoding.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send a batch within the transaction."""
        sendable = reject_unsendable(batch, self.encoding, self.settings)
        if sendable.batch.num_rows:
            if self._client is None:
                self._begin(sendable)
            self._sent += sendable.batch.num_rows
            if self._written is None:
                self._send(sendable)
        return Result(rejected=sendable.rejected)

    def close(self) -> Staged | None:
        """Commit the transaction."""
        if self._client is None:
            PRODUCER_POOL.release_name(self.name)
            return None
        if self._written is None:
            self._commit(self._client)
        elif self._written != self._sent:
            log.warning(
                "sink %s: the ledger has %d messages for a split that has %d now", self.task.sink, self._written, self._sent
            )
        PRODUCER_POOL.mark_written(self._client, self.task.batch)
        PRODUCER_POOL.release_name(self.name)
        return Staged("", 0, self._sent, self.entry.group)

    def abort(self) -> None:
        """Abort the transaction."""
        if self._client is not None:
            PRODUCER_POOL.discard(self._client)
        PRODUCER_POOL.release_name(self.name)

    def _begin(self, sendable: SendableEvents) -> None:
        """Begin the transaction. Everything that fails here may be retried: nothing has been sent."""
        size = min_batch_bytes(one.max_bytes for one in sendable.limits.values())
        client, is_continued = PRODUCER_POOL.acquire(self.settings, self.conf, self.name, size, self.task.batch)
        topic = sendable.topics.dictionary[0].as_py()
        try:
            self._written = None if is_continued else self.entry.fetch_message_count(self.settings, topic)
            if self._written is None:
                client.call(lambda _: client.raw.begin_transaction())
        except Exception:
            PRODUCER_POOL.discard(client)
            raise
        self._client, self._topic = client, topic

    def _send(self, sendable: SendableEvents) -> None:
        """Send a batch. SplitLostError: the transaction is broken, and with it everything sent before."""
        assert self._client is not None
        try:
            failed = BatchSender(self._client).send(self.encoding.encode(sendable.batch, sendable.topics))
        except OSError as lost:
            raise SplitLostError(str(lost)) from lost
        for error in failed.values():
            if error.name() in MESSAGE_ERRORS:
                raise make_rejection_error(self.settings, error)
            found = to_exception(self.settings.servers, error)
            raise SplitLostError(str(found)) if isinstance(found, OSError) else found

    def _commit(self, client: Client) -> None:
        from confluent_kafka import KafkaException

        try:
            self.entry.add_to_transaction(client.raw, self._topic, self._sent, self.settings.timeout_seconds)
        except KafkaException as raised:
            raise client.to_exception(raised.args[0]) from None
        client.call(client.raw.commit_transaction)


def make_rejection_error(settings: ClientSettings, error: KafkaError) -> ComponentError:
    """Return the error for a message that brokers reject, which fails the whole transaction."""
    return ComponentError(
        f"{describe_error(settings.servers, error)}: the topic rejects a message for a reason that is not in its configuration, "
        "which fails the transaction; let this user read the configuration (DescribeConfigs), filter such events, or write "
        "at_least_once"
    )
