"""Whether a cluster answers, lets us in and has the topics that options name; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from connectors.kafka.access import Settings
from connectors.kafka.clients import made
from connectors.kafka.topics import creation_hint, names_of
from etl.api import Finding

SECONDS = 5.0
"""How long a cluster may take."""


def probe_topics(settings: Settings, names: Sequence[str], option: str, *, creates: bool = False) -> Iterator[Finding]:
    """Topics that are missing, unless the run ``creates`` them.

    An OSError or ComponentError says that the cluster does not answer or refuses us.
    """
    there = names_of(made("AdminClient", replace(settings, seconds=min(SECONDS, settings.seconds))))
    for number, name in enumerate(names):
        if name not in there and not creates:
            at = (option, number) if option == "topics" else (option,)
            message = f"kafka {settings.servers} has no topic {name!r}"
            yield Finding("unknown-topic", message, at, creation_hint(name, there))
