"""Sends the messages of micro-batches in the driver, which alone sees all splits and so can limit messages."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from connectors.alerts.ledger import MessageLedger
from connectors.alerts.messages import Message, messages
from etl.api import BatchId, Staged


class MessageSender(Protocol):
    """Sends messages to a service."""

    def send(self, message: Message) -> None:
        """Send one message. An OSError is temporary, a ComponentError ends the run."""

    def close(self) -> None:
        """Close connections, at the end of each micro-batch: the next message may be hours away."""


@dataclass
class AlertCommitter:
    """Committer: sends what the limit allows, and records each message when the service has accepted it.

    A message is sent again only if the run is killed between the two. Time is the clock's at the beginning of a commit.
    """

    folder: str
    sender: MessageSender
    digest: bool
    max_events: int
    limit: int
    every_seconds: float
    clock: Callable[[], float] = time.time
    ledger: MessageLedger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = MessageLedger.load(self.folder)

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Send the messages of a micro-batch that were not sent before."""
        if self.ledger.holds(batch) or not staged:
            return
        try:
            self._send(batch, staged)
        finally:
            self.sender.close()

    def _send(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        ledger = self.ledger
        ledger.begin_span(int(self.clock() // self.every_seconds))
        name = f"{batch.query} {batch.number}"
        sent = ledger.sent.get(name, [])
        suppressed = sum(output.events for output in staged)
        for message in messages(staged, batch, self.digest, self.max_events, os.path.basename(self.folder)):
            if message.key in sent:
                suppressed -= message.events
            elif ledger.messages < self.limit:
                self.sender.send(replace(message, suppressed=ledger.suppressed))
                suppressed -= message.events
                sent.append(message.key)
                ledger.sent[name], ledger.messages, ledger.suppressed = sent, ledger.messages + 1, 0
                ledger.save(self.folder)
        ledger.sent.pop(name, None)
        ledger.suppressed += suppressed
        ledger.batches[batch.query] = batch.number
        ledger.save(self.folder)

    def tick(self) -> None:
        """Do nothing: the number of suppressed events waits for the next message."""

    def close(self) -> None:
        """Do nothing: nothing is pending."""
