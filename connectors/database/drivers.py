"""How each driver is asked for a connection: in autocommit, in UTC, strict, and never waiting for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.database.places import Dialect, Place
from connectors.tls import ClientTls
from etl.api import is_private, output_mode

if TYPE_CHECKING:
    from pydantic import SecretStr


@dataclass(frozen=True)
class Access:
    """Where a database is and how we get in. Hashable, without secrets in its text."""

    place: Place
    user: str | None = None
    password: SecretStr | None = None
    tls: ClientTls | None = None
    timeout: float = 60.0
    properties: tuple[tuple[str, Any], ...] = ()


def _mysql(access: Access) -> Any:
    """Strict, so that no value is cut; UTC; locks waited for no longer than the socket. Read committed takes fewer locks."""
    import pymysql  # type: ignore[import-untyped]

    place, seconds = access.place, max(1, round(access.timeout))
    waits = max(1, min(50, seconds * 3 // 4))
    modes = "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
    options = {
        "charset": "utf8mb4",
        "connect_timeout": min(seconds, 10),
        "read_timeout": seconds,
        "write_timeout": seconds,
        "ssl": access.tls.context() if access.tls else None,
        **dict(access.properties),
    }
    user = access.user or place.user
    secret = access.password.get_secret_value() if access.password else ""
    driver = pymysql.connect(
        host=place.host, port=place.port, user=user, password=secret, database=place.database, autocommit=True, **options
    )
    with driver.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute(f"SET sql_mode='{modes}', time_zone='+00:00', innodb_lock_wait_timeout={waits}")
    return driver


def _postgresql(access: Access) -> Any:
    import psycopg

    place, millis = access.place, max(1000, round(access.timeout * 1000))
    options = {
        "connect_timeout": min(millis // 1000, 10),
        "options": f"-c statement_timeout={millis} -c lock_timeout={millis * 3 // 4} -c timezone=UTC -c datestyle=ISO",
        "client_encoding": "UTF8",
        "application_name": "sluice",
        "tcp_user_timeout": millis,
        **(_postgresql_tls(access.tls) if access.tls else {}),
        **dict(access.properties),
    }
    user = access.user or place.user
    secret = access.password.get_secret_value() if access.password else None
    return psycopg.connect(
        host=place.host, port=place.port, user=user, password=secret, dbname=place.database, autocommit=True, **options
    )


def _postgresql_tls(tls: ClientTls) -> dict[str, str]:
    modes = {"full": "verify-full", "authority": "verify-ca", "none": "require"}
    found = {"sslmode": modes[tls.verify], "ssl_min_protocol_version": "TLSv1.2"}
    if tls.verify != "none":
        found["sslrootcert"] = tls.authority or "system"
    if tls.certificate:
        found |= {"sslcert": tls.certificate, "sslkey": tls.key or tls.certificate}
    if tls.key_password:
        found["sslpassword"] = tls.key_password.get_secret_value()
    return found


def _sqlite(access: Access) -> Any:
    import sqlite3

    options = {"timeout": access.timeout, **dict(access.properties)}
    if is_private() and os.path.isabs(access.place.database):
        _create(access.place.database)
    return sqlite3.connect(access.place.database, isolation_level=None, check_same_thread=False, **options)


def _create(path: str) -> None:
    """Make a database file that is missing, for others to read as the user's umask says: a run's own files are private."""
    with suppress(OSError):  # connecting says what is wrong
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.fchmod(handle, output_mode())
        os.close(handle)


CONNECT: dict[Dialect, Callable[[Access], Any]] = {"mysql": _mysql, "postgresql": _postgresql, "sqlite": _sqlite}
