"""Probe of a broker: does it answer, and accept the login? Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from connectors.mqtt.connection import connect
from connectors.mqtt.connection_options import ConnectionSettings
from connectors.mqtt.packets import Login
from etl.api import Finding

PROBE_TIMEOUT_SECONDS = 3.0
"""How long a broker may take to answer."""


def probe_broker(settings: ConnectionSettings) -> Iterator[Finding]:
    """Yield nothing. Raises OSError if no broker answers, and ComponentError if one refuses the login."""
    login = Login("", settings.is_version_5, True, settings.keep_alive, *settings.login)
    connection, _, _ = connect(replace(settings, timeout=min(settings.timeout, PROBE_TIMEOUT_SECONDS)), login)
    connection.close()
    yield from ()
