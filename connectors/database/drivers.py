"""Opens a connection with each driver: autocommit, UTC, strict mode, and a limit for every wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from connectors.database.database_url import DatabaseUrl, Dialect
from connectors.shared.tls import ClientTls
from etl.api import is_private, output_mode

if TYPE_CHECKING:
    from pydantic import SecretStr


@dataclass(frozen=True)
class ConnectionSettings:
    """Address and credentials of a database. Hashable; its repr contains no secret."""

    url: DatabaseUrl
    user: str | None = None
    password: SecretStr | None = None
    tls: ClientTls | None = None
    timeout: float = 60.0
    properties: tuple[tuple[str, Any], ...] = ()

    @property
    def idle_seconds(self) -> int:
        """How long a server keeps a transaction open, with its locks, while this client is silent: its connection may be cut
        without the server's knowledge.
        """
        return max(1, round(self.timeout))


def _mysql(settings: ConnectionSettings) -> Any:
    """Open a connection in strict mode, so that no value is truncated, in UTC, with lock waits shorter than the socket's
    timeout.

    The isolation level READ COMMITTED takes fewer locks than the default.
    """
    import pymysql  # type: ignore[import-untyped]

    url, seconds = settings.url, max(1, round(settings.timeout))
    waits = max(1, min(50, seconds * 3 // 4))
    modes = "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
    options = {
        "charset": "utf8mb4",
        "connect_timeout": min(seconds, 10),
        "read_timeout": seconds,
        "write_timeout": seconds,
        "ssl": settings.tls.context() if settings.tls else None,
        **dict(settings.properties),
    }
    user = settings.user or url.user
    secret = settings.password.get_secret_value() if settings.password else ""
    driver = pymysql.connect(
        host=url.host, port=url.port, user=user, password=secret, database=url.database, autocommit=True, **options
    )
    with driver.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute(f"SET sql_mode='{modes}', time_zone='+00:00', innodb_lock_wait_timeout={waits}")
        if is_mariadb(driver):  # from 10.3, which is older than any version with support
            cursor.execute(f"SET idle_transaction_timeout={settings.idle_seconds}")
    return driver


def is_mariadb(driver: Any) -> bool:
    """Whether a connection of PyMySQL is to MariaDB. MySQL has no limit for idle transactions, only for idle connections."""
    return "mariadb" in driver.get_server_info().lower()


def _postgresql(settings: ConnectionSettings) -> Any:
    """Open a connection on which neither side waits for the other without an end: the server ends statements, lock waits and
    idle transactions, the client waits a little longer than the server, and both find dead connections.
    """
    url, millis = settings.url, max(1000, round(settings.timeout * 1000))
    limits = {
        "statement_timeout": millis,
        "lock_timeout": millis * 3 // 4,
        "idle_in_transaction_session_timeout": settings.idle_seconds * 1000,
        "timezone": "UTC",
        "datestyle": "ISO",
    }
    seconds, interval = millis // 1000, max(1, millis // 1000 // (2 * KEEPALIVES))
    options = {
        "connect_timeout": min(seconds, 10),
        "options": " ".join(f"-c {name}={value}" for name, value in limits.items()),
        "client_encoding": "UTF8",
        "application_name": "sluice",
        "tcp_user_timeout": millis,
        "keepalives_idle": max(1, seconds // 2),
        "keepalives_interval": interval,
        "keepalives_count": KEEPALIVES,
        **(_postgresql_tls(settings.tls) if settings.tls else {}),
        **dict(settings.properties),
    }
    user = settings.user or url.user
    secret = settings.password.get_secret_value() if settings.password else None
    driver = _limited_connection().connect(
        host=url.host, port=url.port, user=user, password=secret, dbname=url.database, autocommit=True, **options
    )
    driver.answer_seconds = settings.timeout + ANSWER_GRACE_SECONDS
    driver.execute(_FIND_DEAD_CLIENTS, (max(1, seconds // 2), interval, KEEPALIVES, millis))
    return driver


KEEPALIVES = 5
"""Unanswered TCP keepalives after which a connection is closed."""
ANSWER_GRACE_SECONDS = 5.0
"""How much longer than the server's limit of a statement the client waits for the answer: the error has to arrive."""
_FIND_DEAD_CLIENTS = """
SELECT set_config(name, found.value::text, false) FROM pg_settings JOIN (VALUES
  ('tcp_keepalives_idle', %s), ('tcp_keepalives_interval', %s), ('tcp_keepalives_count', %s), ('tcp_user_timeout', %s)
) AS found (name, value) USING (name)"""
"""Sets those of the server's own limits for this connection that its version has."""


@cache
def _limited_connection() -> Any:
    """Return psycopg's class of connections with a limit of the wait for an answer, which libpq does not have: a proxy on the
    way may answer TCP's keepalives although the server is gone.
    """
    import psycopg

    class LimitedConnection(psycopg.Connection[Any]):
        answer_seconds: float | None = None

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            if self.answer_seconds is not None:
                gen = _end_late(gen, self.answer_seconds)
            return super().wait(gen, *args, **options)

    return LimitedConnection


def _end_late(waiting: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """Resume a generator of psycopg as events of its socket arrive. Raises OperationalError if it does not end in time."""
    import psycopg

    until = time.monotonic() + seconds
    try:
        event = next(waiting)
        while True:
            ready = yield event
            if not ready and time.monotonic() > until:
                waiting.close()
                raise psycopg.OperationalError(f"the server has not answered within {seconds:g} s")
            event = waiting.send(ready)
    except StopIteration as end:
        return end.value


def _postgresql_tls(tls: ClientTls) -> dict[str, str]:
    modes = {"full": "verify-full", "authority": "verify-ca", "none": "require"}
    tls_options = {"sslmode": modes[tls.verify], "ssl_min_protocol_version": "TLSv1.2"}
    if tls.verify != "none":
        tls_options["sslrootcert"] = tls.authority or "system"
    if tls.certificate:
        tls_options |= {"sslcert": tls.certificate, "sslkey": tls.key or tls.certificate}
    if tls.key_password:
        tls_options["sslpassword"] = tls.key_password.get_secret_value()
    return tls_options


def _sqlite(settings: ConnectionSettings) -> Any:
    import sqlite3

    options = {"timeout": settings.timeout, **dict(settings.properties)}
    if is_private() and os.path.isabs(settings.url.database):
        _create_file(settings.url.database)
    return sqlite3.connect(settings.url.database, isolation_level=None, check_same_thread=False, **options)


def _create_file(path: str) -> None:
    """Create a missing database file with the permissions of the user's umask; other files of a run are private."""
    with suppress(OSError):  # sqlite3.connect reports the error
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.fchmod(handle, output_mode())
        os.close(handle)


CONNECTORS: dict[Dialect, Callable[[ConnectionSettings], Any]] = {"mysql": _mysql, "postgresql": _postgresql, "sqlite": _sqlite}
"""Opens a connection, by dialect."""
