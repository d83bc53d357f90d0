"""Meaning of librdkafka's errors: temporary (an OSError), or to be corrected by the user (a ComponentError)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from etl.api import ComponentError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

ErrorKind = Literal[
    "login-refused", "tls-refused", "not-allowed", "unknown-topic", "not-created", "bad-property", "cannot-connect"
]
"""Kind of an error; findings use it as their code."""

_KINDS: Mapping[str, ErrorKind] = {
    "_AUTHENTICATION": "login-refused",
    "SASL_AUTHENTICATION_FAILED": "login-refused",
    "UNSUPPORTED_SASL_MECHANISM": "login-refused",
    "TOPIC_AUTHORIZATION_FAILED": "not-allowed",
    "GROUP_AUTHORIZATION_FAILED": "not-allowed",
    "CLUSTER_AUTHORIZATION_FAILED": "not-allowed",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "not-allowed",
    "UNKNOWN_TOPIC_OR_PART": "unknown-topic",
    "_UNKNOWN_TOPIC": "unknown-topic",
    "_UNKNOWN_PARTITION": "unknown-topic",
    "TOPIC_EXCEPTION": "unknown-topic",
    "INVALID_REPLICATION_FACTOR": "not-created",
    "INVALID_PARTITIONS": "not-created",
    "POLICY_VIOLATION": "not-created",
    "_INVALID_ARG": "bad-property",
}

MESSAGE_ERRORS = ("INVALID_RECORD", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_TIMESTAMP", "INVALID_MSG")
"""Errors by which a broker rejects a single message."""

_HINTS: Mapping[ErrorKind, str] = {
    "login-refused": "check user, password and mechanism",
    "tls-refused": "check tls.authority, the server's name, that the port talks TLS, and tls.certificate where it wants one",
    "not-allowed": "ask for the rights of this user",
    "unknown-topic": "correct the name of the topic, or have it created by the option create",
    "not-created": "check create.partitions and create.replication",
    "bad-property": "check properties",
}

_TLS_REFUSED = re.compile(r"verify failed|certificate|alert|wrong version|no shared cipher", re.IGNORECASE)
_STARTS_WITH_ADDRESS = re.compile(r"\S+:\d+: ")
_LIBRARY_DETAILS = re.compile(
    r"/bootstrap|^[a-z_]+://|ipv[46]#| \(after \d+ms in state [A-Z_]+(, \d+ identical error\(s\) suppressed)?\)"
)


def error_kind(error: KafkaError) -> ErrorKind:
    """Classify an error. A failed TLS handshake is temporary unless the message says that it was refused: a restarting broker
    breaks handshakes, too.

    With TLS 1.3 a broker refuses a client certificate after the handshake is complete for the client, which sees a broken
    connection.
    """
    if (error.name() == "_SSL" or "SSL alert" in error.str()) and _TLS_REFUSED.search(error.str()):
        return "tls-refused"
    return _KINDS.get(error.name(), "cannot-connect")


def describe_error(servers: str, error: KafkaError) -> str:
    """Return the error's text with the host and port it concerns, without librdkafka's own prefixes for them."""
    text = _LIBRARY_DETAILS.sub("", error.str())
    return f"kafka {text}" if _STARTS_WITH_ADDRESS.match(text) else f"kafka {servers}: {text}"


def to_exception(servers: str, error: KafkaError) -> Exception:
    """Return the exception to raise: ComponentError with a hint for what the user must correct, else a TimeoutError or
    ConnectionError.
    """
    kind, text = error_kind(error), describe_error(servers, error)
    if kind in _HINTS:
        return ComponentError(f"{text}; {_HINTS[kind]}")
    return TimeoutError(text) if error.name() in ("_TIMED_OUT", "_MSG_TIMED_OUT") else ConnectionError(text)
