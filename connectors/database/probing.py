"""`etl lint --connect`: reach the database, log in, look; a few seconds at most, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from connectors.database.drivers import Access
from connectors.database.session import Session, close, connected
from etl.api import ComponentError, Finding

SECONDS = 5.0


def reached(access: Access, look: Callable[[Session], Iterable[Finding]]) -> Iterable[Finding]:
    """What ``look`` finds over a connection of its own; or why there is none."""
    try:
        session = connected(replace(access, timeout=min(access.timeout, SECONDS)))
    except OSError as error:
        yield Finding("unreachable", str(error), ("url",))
        return
    except ComponentError as error:
        yield Finding("not-ready", str(error), ("url",))
        return
    try:
        yield from look(session)
    except OSError as error:
        yield Finding("unreachable", str(error), ("url",))
    except ComponentError as error:
        yield Finding("not-ready", str(error))
    finally:
        close(session)
