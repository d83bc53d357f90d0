"""The writer that delivers exactly once: one transaction for a split, with the split's entry in the ledger.

A transaction cannot be prepared by a task and committed by the driver, so the task commits it, and the ledger tells the
next try of the same split (after a crash, or because another sink failed) that it is done: it then sends nothing.
The order is: begin with the name, which shuts out who had it before; look into the ledger; send; put the entry; commit.
A split that sends nothing needs none of it.

Killed before the commit: brokers take the transaction back when its name is used next, and the split is written again.
Killed behind it: the entry is there. An answer that never came: the next try looks. Tasks with several splits of one
partition each have their own name, transaction and entry, and wait for nobody. A micro-batch that is planned again has
the same splits; were its tasks numbered differently (sources in another order in the file), entries are still found, for
they do not depend on the number.

Whether an event can be sent is decided before (`sorting`), so a split that is done gives the same dead letters again.
What a broker refuses nevertheless fails the transaction and ends the run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.kafka.access import Settings
from connectors.kafka.clients import Client
from connectors.kafka.encoding import Encoding
from connectors.kafka.failures import UNWANTED, failure, told
from connectors.kafka.ledger import Entry
from connectors.kafka.producers import PRODUCERS
from connectors.kafka.sending import Sending, smallest
from connectors.kafka.sorting import Sorted, sorted_out
from etl.api import ComponentError, Result, SplitLostError, Staged, Task

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

log = logging.getLogger("sluice.kafka")


@dataclass
class TransactionWriter:
    """Sends each batch at once, in a transaction that ends with the split. Memory: one batch, encoded."""

    encoding: Encoding
    settings: Settings
    conf: tuple[tuple[str, str], ...]
    task: Task
    name: str = field(init=False)
    _client: Client | None = None
    _written: int | None = None
    """How many messages the ledger says are there; None: none are, we write."""
    _sent: int = 0
    _topic: str = ""

    def __post_init__(self) -> None:
        self.name = PRODUCERS.take(self.task)
        self.entry = Entry.of(self.task)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Value, key and headers."""
        return self.encoding.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Add to the transaction."""
        left = sorted_out(batch, self.encoding, self.settings)
        if left.batch.num_rows:
            if self._client is None:
                self._begin(left)
            self._sent += left.batch.num_rows
            if self._written is None:
                self._send(left)
        return Result(rejected=left.rejected)

    def close(self) -> Staged | None:
        """Commit."""
        if self._client is None:
            PRODUCERS.release(self.name)
            return None
        if self._written is None:
            self._commit(self._client)
        elif self._written != self._sent:
            log.warning(
                "sink %s: a split wrote %d messages before, and would write %d now", self.task.sink, self._written, self._sent
            )
        PRODUCERS.wrote(self._client, self.task.batch)
        PRODUCERS.release(self.name)
        return Staged("", 0, self._sent, self.entry.group)

    def abort(self) -> None:
        """Take the transaction back."""
        if self._client is not None:
            PRODUCERS.drop(self._client)
        PRODUCERS.release(self.name)

    def _begin(self, left: Sorted) -> None:
        """Whatever fails here may be tried again: nothing was sent."""
        size = smallest(one.max_bytes for one in left.limits.values())
        client, goes_on = PRODUCERS.begun(self.settings, self.conf, self.name, size, self.task.batch)
        topic = left.topics.dictionary[0].as_py()
        try:
            self._written = None if goes_on else self.entry.written(self.settings, topic)
            if self._written is None:
                client.asked(lambda _: client.the.begin_transaction())
        except Exception:
            PRODUCERS.drop(client)
            raise
        self._client, self._topic = client, topic

    def _send(self, left: Sorted) -> None:
        """SplitLostError: the transaction is broken, and with it all that was sent."""
        assert self._client is not None
        try:
            failed = Sending(self._client).sent(self.encoding.messages(left.batch, left.topics))
        except OSError as lost:
            raise SplitLostError(str(lost)) from lost
        for error in failed.values():
            if error.name() in UNWANTED:
                raise refused(self.settings, error)
            found = failure(self.settings.servers, error)
            raise SplitLostError(str(found)) if isinstance(found, OSError) else found

    def _commit(self, client: Client) -> None:
        from confluent_kafka import KafkaException

        try:
            self.entry.put(client.the, self._topic, self._sent, self.settings.seconds)
        except KafkaException as raised:
            raise client.failure(raised.args[0]) from None
        client.asked(client.the.commit_transaction)


def refused(settings: Settings, error: KafkaError) -> ComponentError:
    """Brokers do not want a message, which fails all of its transaction."""
    return ComponentError(
        f"{told(settings.servers, error)}: the topic refuses a message for a reason its configuration did not tell, and with "
        "it the transaction; let this user read the configuration (DescribeConfigs), filter such events, or write at_least_once"
    )
