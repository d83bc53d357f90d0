"""The ledger of a sink for messages, in the driver: which micro-batches are done, and how many messages the span has."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field

from etl.api import BatchId, ComponentError, replace_file

NAME = "messages.json"


@dataclass
class MessageLedger:
    """One small file, replaced as a whole: after each message, and at the end of each micro-batch."""

    batches: dict[str, int] = field(default_factory=dict)
    """Query → the last micro-batch of which all messages are sent or suppressed."""
    sent: dict[str, list[str]] = field(default_factory=dict)
    """Query and number of an unfinished micro-batch → keys of its messages that are sent."""
    span: int = 0
    """Number of the current span since 1970."""
    messages: int = 0
    """Messages sent in the span."""
    suppressed: int = 0
    """Events suppressed since the last message."""

    @classmethod
    def load(cls, folder: str) -> MessageLedger:
        """Read the ledger of a folder, or return an empty one. Raises ComponentError if it is damaged."""
        path = os.path.join(folder, NAME)
        try:
            with open(path, encoding="utf-8") as file:
                record = json.load(file)
            return cls(
                {str(query): int(number) for query, number in record["batches"].items()},
                {str(batch): [str(key) for key in keys] for batch, keys in record["sent"].items()},
                *(int(record[name]) for name in ("span", "messages", "suppressed")),
            )
        except FileNotFoundError:
            return cls()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ComponentError(
                f"{path} is not a valid ledger of sent messages ({error}); restore it, or move it away: the messages of the "
                "last micro-batch may then be sent again"
            ) from error

    def save(self, folder: str) -> None:
        """Replace the file, durably."""
        replace_file(os.path.join(folder, NAME), json.dumps(asdict(self)).encode())

    def holds(self, batch: BatchId) -> bool:
        """Return whether a micro-batch is done."""
        return batch.number <= self.batches.get(batch.query, -1)

    def begin_span(self, span: int) -> None:
        """Count from 0 if another span has begun."""
        if span != self.span:
            self.span, self.messages = span, 0
