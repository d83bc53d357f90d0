"""What an error of librdkafka means: temporary (an OSError) or for its user to mend (a ComponentError)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from etl.api import ComponentError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

Kind = Literal["login-refused", "tls-refused", "not-allowed", "unknown-topic", "not-created", "bad-property", "cannot-connect"]
"""What went wrong, as findings call it."""

_KINDS: Mapping[str, Kind] = {
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

UNWANTED = ("INVALID_RECORD", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_TIMESTAMP", "INVALID_MSG")
"""Errors that say that a broker does not want a message."""

_HINTS: Mapping[Kind, str] = {
    "login-refused": "check user, password and mechanism",
    "tls-refused": "check tls.authority, the server's name, that the port talks TLS, and tls.certificate where it wants one",
    "not-allowed": "ask for the rights of this user",
    "unknown-topic": "correct the name of the topic, or have it created by the option create",
    "not-created": "check create.partitions and create.replication",
    "bad-property": "check properties",
}

_REFUSED = re.compile(r"verify failed|certificate|alert|wrong version|no shared cipher", re.IGNORECASE)
_PLACED = re.compile(r"\S+:\d+: ")
_NOISE = re.compile(r"/bootstrap|^[a-z_]+://|ipv[46]#| \(after \d+ms in state [A-Z_]+(, \d+ identical error\(s\) suppressed)?\)")


def kind_of(error: KafkaError) -> Kind:
    """What went wrong. A broken TLS handshake is temporary unless it was refused: a restarting broker breaks it too.

    With TLS 1.3 a broker refuses a client's certificate when the handshake is over for the client: as a broken connection.
    """
    if (error.name() == "_SSL" or "SSL alert" in error.str()) and _REFUSED.search(error.str()):
        return "tls-refused"
    return _KINDS.get(error.name(), "cannot-connect")


def told(servers: str, error: KafkaError) -> str:
    """The error with the host and port it is about, without librdkafka's own words for them."""
    text = _NOISE.sub("", error.str())
    return f"kafka {text}" if _PLACED.match(text) else f"kafka {servers}: {text}"


def failure(servers: str, error: KafkaError) -> Exception:
    """What to raise."""
    kind, text = kind_of(error), told(servers, error)
    if kind in _HINTS:
        return ComponentError(f"{text}; {_HINTS[kind]}")
    return TimeoutError(text) if error.name() in ("_TIMED_OUT", "_MSG_TIMED_OUT") else ConnectionError(text)
