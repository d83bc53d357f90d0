"""Probe of a cluster: does it answer, accept the login, and have the topics? Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from connectors.kafka.clients import create_client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.topics import creation_hint, list_topic_names
from etl.api import Finding

PROBE_TIMEOUT_SECONDS = 5.0
"""How long the cluster may take to answer."""


def probe_topics(settings: ClientSettings, names: Sequence[str], option: str, *, creates: bool = False) -> Iterator[Finding]:
    """Yield a finding for each topic that is missing, unless the run ``creates`` it.

    Raises OSError if the cluster does not answer, and ComponentError if it refuses the login.
    """
    existing = list_topic_names(
        create_client("AdminClient", replace(settings, timeout_seconds=min(PROBE_TIMEOUT_SECONDS, settings.timeout_seconds)))
    )
    for number, name in enumerate(names):
        if name not in existing and not creates:
            at = (option, number) if option == "topics" else (option,)
            message = f"kafka {settings.servers} has no topic {name!r}"
            yield Finding("unknown-topic", message, at, creation_hint(name, existing))
