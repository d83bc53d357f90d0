"""Clients of librdkafka: made once a process, with what they report on the side, and asked with patience."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from connectors.kafka.access import Settings
from connectors.kafka.failures import failure, kind_of
from etl.api import ComponentError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

SLICE_SECONDS = 1.0
"""How long a client is asked before what it reported on the side is looked at."""

_KEPT_SECONDS = 60.0
"""How long a report explains a failure: librdkafka repeats an error after half a minute."""

T = TypeVar("T")


@dataclass
class Heard:
    """Errors of connections, which no call returns."""

    _errors: dict[str, tuple[float, KafkaError]] = field(default_factory=dict)

    def __call__(self, error: KafkaError) -> None:
        """librdkafka reports one."""
        self._errors[error.name()] = (time.monotonic(), error)

    def forget(self) -> None:
        """All is well again."""
        self._errors.clear()

    def is_hopeless(self) -> bool:
        """Whether waiting is of no use: refused, or every broker is down."""
        worst = self.worst()
        return worst is not None and (kind_of(worst) != "cannot-connect" or "_ALL_BROKERS_DOWN" in self._errors)

    def worst(self) -> KafkaError | None:
        """What explains a failure best: a refusal, else the last trouble with one broker."""
        now = time.monotonic()
        recent = [error for at, error in sorted(self._errors.values(), key=lambda kept: kept[0]) if now - at < _KEPT_SECONDS]
        refused = [error for error in recent if kind_of(error) != "cannot-connect"]
        single = [error for error in recent if error.name() != "_ALL_BROKERS_DOWN"]
        return next(reversed(refused or single or recent), None)


@dataclass(frozen=True)
class Client:
    """A consumer, producer or administrator, ``the`` client itself, and what it reports."""

    settings: Settings
    the: Any
    heard: Heard

    def asked(self, question: Callable[[float], T]) -> T:
        """The answer to a question that takes its limit in seconds; raises what `failure` makes of the cause."""
        from confluent_kafka import KafkaException

        until = time.monotonic() + self.settings.seconds
        while True:
            left = until - time.monotonic()
            try:
                answer = question(max(0.1, min(SLICE_SECONDS, left)))
            except KafkaException as raised:
                error = raised.args[0]
            else:
                self.heard.forget()
                return answer
            self.the.poll(0)
            over = error.fatal() or error.txn_requires_abort()
            if over or kind_of(error) != "cannot-connect" or self.heard.is_hopeless() or left <= SLICE_SECONDS:
                raise self.failure(error) from None

    def failure(self, error: KafkaError) -> Exception:
        """What to raise for an error of a call."""
        known = error.fatal() or error.txn_requires_abort() or kind_of(error) != "cannot-connect"
        cause = error if known else self.heard.worst() or error
        return failure(self.settings.servers, cause)


def made(kind: str, settings: Settings, **conf: object) -> Client:
    """A new client: ``Consumer``, ``Producer`` or ``AdminClient``."""
    library, heard = _library(), Heard()
    from confluent_kafka import KafkaException

    try:
        return Client(settings, library[kind]({**settings.conf(**conf), "error_cb": heard}), heard)
    except KafkaException as raised:
        raise ComponentError(f"kafka: {raised.args[0].str()}; check properties and tls") from None


@cache
def admin(settings: Settings) -> Client:
    """Who asks about topics and offsets: one to a process."""
    return made("AdminClient", settings)


@cache
def _library() -> dict[str, Any]:
    try:
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient
    except ImportError as error:
        raise ComponentError("kafka needs confluent-kafka: pip install 'sluice-etl[kafka]'") from error
    return {"Consumer": Consumer, "Producer": Producer, "AdminClient": AdminClient}
