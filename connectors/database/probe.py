"""Probe of a database (`etl lint --connect`): connect, log in, check, within a few seconds. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from connectors.database.drivers import ConnectionSettings
from connectors.database.session import Session, close, open_session
from etl.api import ComponentError, Finding

PROBE_TIMEOUT_SECONDS = 5.0
"""How long a statement of the probe may take."""


def probe_database(settings: ConnectionSettings, check: Callable[[Session], Iterable[Finding]]) -> Iterable[Finding]:
    """Yield the findings of ``check`` on a connection of its own, or why there is no connection."""
    try:
        session = open_session(replace(settings, timeout=min(settings.timeout, PROBE_TIMEOUT_SECONDS)))
    except OSError as error:
        yield Finding("unreachable", str(error), ("url",))
        return
    except ComponentError as error:
        yield Finding("not-ready", str(error), ("url",))
        return
    try:
        yield from check(session)
    except OSError as error:
        yield Finding("unreachable", str(error), ("url",))
    except ComponentError as error:
        yield Finding("not-ready", str(error))
    finally:
        close(session)
