"""What a receiver must know."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.journal.options import JournalOptions
from connectors.syslog_receiver.places import Place
from connectors.syslog_receiver.tls import Tls


@dataclass(frozen=True)
class Terms:
    """What a receiver must know."""

    places: tuple[Place, ...]
    max_message_bytes: int
    connections: int
    allow: tuple[str, ...]
    buffer_bytes: int | None
    permissions: int
    tls: Tls | None
    journal: JournalOptions
