"""Opens a connection with each driver: autocommit, UTC, strict mode, and a limit for every wait."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
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
    return driver


def _postgresql(settings: ConnectionSettings) -> Any:
    import psycopg

    url, millis = settings.url, max(1000, round(settings.timeout * 1000))
    options = {
        "connect_timeout": min(millis // 1000, 10),
        "options": f"-c statement_timeout={millis} -c lock_timeout={millis * 3 // 4} -c timezone=UTC -c datestyle=ISO",
        "client_encoding": "UTF8",
        "application_name": "sluice",
        "tcp_user_timeout": millis,
        **(_postgresql_tls(settings.tls) if settings.tls else {}),
        **dict(settings.properties),
    }
    user = settings.user or url.user
    secret = settings.password.get_secret_value() if settings.password else None
    return psycopg.connect(
        host=url.host, port=url.port, user=user, password=secret, dbname=url.database, autocommit=True, **options
    )


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
