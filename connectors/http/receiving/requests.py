"""A request, what a protocol makes of it, and why it is refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from connectors.shared.journal.batches import EventRows, text_batch
from connectors.shared.journal.event_blocks import Frames
from etl.api import Rejects, Schema

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """A request; its body is decompressed, and empty until it has been read."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By names in lower case."""

    body: bytes = b""

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Reply:
    """A response."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AcceptedEvents:
    """Events of a request, and the reply when they are stored.

    ``contexts`` is what the events have in common, as JSON texts or None; ``context_of_row`` is the context of each event where
    there are several.
    """

    frames: Frames
    reply: Reply
    contexts: tuple[str | None, ...] = (None,)
    context_of_row: Any = None


class RequestError(Exception):
    """A request that is refused: nothing of it is stored."""

    def __init__(self, status: int, message: str, detail: Any = None) -> None:
        super().__init__(message)
        self.status, self.message, self.detail = status, message, detail


class RequestProtocol(ABC):
    """What senders of one kind expect, and the fields of their events."""

    form: ClassVar[str]
    """How its events are stored; formats of one form read the events of each other."""

    needs_no_token: ClassVar[frozenset[str]] = frozenset()
    """Paths that answer without a token."""

    error_reasons: ClassVar[Mapping[str, str]] = {}
    """Code of a rejected event → its reason."""

    headers: ClassVar[Mapping[str, str]] = {}
    """Headers of every reply."""

    @property
    @abstractmethod
    def fields(self) -> Schema:
        """The fields of its events."""

    @abstractmethod
    def answer(self, request: Request) -> Reply | AcceptedEvents:
        """Answer a request. Raises RequestError to refuse it. Called in any thread."""

    @abstractmethod
    def refuse(self, request: Request, error: RequestError) -> Reply:
        """Return the reply to a refused request, as its sender expects it."""

    def own_batches(self, rows: EventRows) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the events of rows; those that were stored in another form, before the format was changed, are rejected."""
        import numpy as np

        forms = [sender[3] if len(sender) > 3 else self.form for sender in rows.senders]
        is_own = np.array([form == self.form for form in forms], bool)[rows.sender_of_row]
        if is_own.all():
            yield from self.batches(rows)
            return
        if is_own.any():
            yield from self.batches(rows.filter(is_own))
        yield Rejects(text_batch(rows.filter(~is_own)), OTHER_FORMAT, OTHER_FORMAT_REASON)

    @abstractmethod
    def batches(self, rows: EventRows) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the events of rows of the journal."""


OTHER_FORMAT = "other-format"
OTHER_FORMAT_REASON = (
    "the event was received in another format, before the option format was changed; it is shown as it was stored"
)

MAX_RECORDS = 1 << 18
"""Events of a request whose protocol nests them: two bytes may be one, and each costs some hundred bytes of memory."""

NOT_READABLE = (ValueError, TypeError, OverflowError, RecursionError)
"""What reading a value raises that is not what it should be, such as a time of 1e999."""


def check_count(records: int) -> None:
    """Raise RequestError (413) for more than `MAX_RECORDS`."""
    if records > MAX_RECORDS:
        raise RequestError(413, f"the request has more than {MAX_RECORDS} events: send fewer at a time")


def not_found(request: Request, known: str) -> RequestError:
    """Return the error of a path that does not exist."""
    return RequestError(404, f"{request.method} {request.path} does not exist: send to {known}")
