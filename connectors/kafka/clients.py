"""Clients of librdkafka, created once a process. They collect the connection errors that librdkafka reports by callback, and
repeat requests that fail for a passing reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.errors import error_kind, to_exception
from etl.api import ComponentError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

POLL_SECONDS = 1.0
"""How long one call of the client may block before the reported connection errors are checked."""

_ERROR_LIFETIME_SECONDS = 60.0
"""How long a reported error counts as the cause of a failure. librdkafka repeats a lasting error after half a minute."""

T = TypeVar("T")


@dataclass
class ConnectionErrors:
    """Connection errors that librdkafka reports by callback; no call returns them."""

    _errors: dict[str, tuple[float, KafkaError]] = field(default_factory=dict)

    def __call__(self, error: KafkaError) -> None:
        """Record an error (librdkafka's ``error_cb``)."""
        self._errors[error.name()] = (time.monotonic(), error)

    def clear(self) -> None:
        """Drop all errors, after a call that succeeded."""
        self._errors.clear()

    def is_permanent(self) -> bool:
        """Return whether retrying is useless: a broker refused the client, or all brokers are down."""
        most_likely_cause = self.most_likely_cause()
        return most_likely_cause is not None and (
            error_kind(most_likely_cause) != "cannot-connect" or "_ALL_BROKERS_DOWN" in self._errors
        )

    def most_likely_cause(self) -> KafkaError | None:
        """Return the best explanation of a failure: a refusal (login, TLS, rights), else the last error of a single broker."""
        now = time.monotonic()
        recent = [
            error
            for at, error in sorted(self._errors.values(), key=lambda reported: reported[0])
            if now - at < _ERROR_LIFETIME_SECONDS
        ]
        refused = [error for error in recent if error_kind(error) != "cannot-connect"]
        single = [error for error in recent if error.name() != "_ALL_BROKERS_DOWN"]
        return next(reversed(refused or single or recent), None)


@dataclass(frozen=True)
class Client:
    """A consumer, producer or admin client of librdkafka (``raw``) with its settings and its reported connection errors."""

    settings: ClientSettings
    raw: Any
    connection_errors: ConnectionErrors

    def call(self, request: Callable[[float], T]) -> T:
        """Repeat a request until it succeeds or the timeout is over.

        ``request`` takes its time limit in seconds. Raises what `to_exception` makes of the cause.
        """
        from confluent_kafka import KafkaException

        until = time.monotonic() + self.settings.timeout_seconds
        while True:
            left = until - time.monotonic()
            try:
                answer = request(max(0.1, min(POLL_SECONDS, left)))
            except KafkaException as raised:
                error = raised.args[0]
            else:
                self.connection_errors.clear()
                return answer
            self.raw.poll(0)
            over = error.fatal() or error.txn_requires_abort()
            if over or error_kind(error) != "cannot-connect" or self.connection_errors.is_permanent() or left <= POLL_SECONDS:
                raise self.to_exception(error) from None

    def to_exception(self, error: KafkaError) -> Exception:
        """Return the exception to raise for the error of a call; prefers a reported connection error as the cause."""
        known = error.fatal() or error.txn_requires_abort() or error_kind(error) != "cannot-connect"
        cause = error if known else self.connection_errors.most_likely_cause() or error
        return to_exception(self.settings.servers, cause)


def create_client(kind: str, settings: ClientSettings, **conf: object) -> Client:
    """Create a client: ``kind`` is ``Consumer``, ``Producer`` or ``AdminClient``. Raises ComponentError for properties that
    librdkafka refuses.
    """
    library, connection_errors = _client_classes(), ConnectionErrors()
    from confluent_kafka import KafkaException

    try:
        return Client(
            settings, library[kind]({**settings.properties_with(**conf), "error_cb": connection_errors}), connection_errors
        )
    except KafkaException as raised:
        raise ComponentError(f"kafka: {raised.args[0].str()}; check properties and tls") from None


@cache
def admin_client(settings: ClientSettings) -> Client:
    """Return the admin client of this process for these settings."""
    return create_client("AdminClient", settings)


@cache
def _client_classes() -> dict[str, Any]:
    try:
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient
    except ImportError as error:
        raise ComponentError("kafka needs confluent-kafka: pip install 'sluice-etl[kafka]'") from error
    return {"Consumer": Consumer, "Producer": Producer, "AdminClient": AdminClient}
