"""Meaning of drivers' errors: retry, end the run, or reject the rows that caused them.

Codes: MariaDB's and MySQL's server error references, PostgreSQL's appendix A (SQLSTATE), SQLite's result codes. A lock
timeout, a deadlock, a full disk and a lost connection are temporary. Errors of values and constraints concern rows. All
others (no such table, no rights, wrong password) end the run, because only the user can correct them.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from typing import Literal

from connectors.database.database_url import DatabaseUrl, Dialect
from etl.api import ComponentError

ErrorMeaning = Literal["temporary", "rows", "permanent"]


class RowsError(Exception):
    """A statement failed because of the content of a row. ``row`` is the row's number in the statement from 0, if known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


def to_engine_error(error: Exception, url: DatabaseUrl, what: str = "") -> Exception:
    """Return a driver's error as OSError, RowsError or ComponentError; other errors unchanged."""
    classify = _CLASSIFIERS[url.dialect]
    meaning = classify(error)
    if meaning is None:
        return error
    text = _message(error)
    if meaning == "rows":
        found = _ROW.search(text)
        return RowsError(_ROW.sub("", text), int(found[1] or found[2]) - 1 if found else None)
    message = f"{url}{what}: {text}"
    return OSError(message) if meaning == "temporary" else ComponentError(f"{message}{_hint(text)}")


_ROW = re.compile(r" at row (\d+)| CONTEXT: COPY \S+, line (\d+),?")


def _message(error: Exception) -> str:
    """Return the database's message on one line."""
    words = error.args[1] if len(error.args) > 1 and isinstance(error.args[0], int) else str(error)
    return " ".join(str(words or type(error).__name__).split())


def _hint(text: str) -> str:
    return next((f"; {hint}" for pattern, hint in _HINTS if re.search(pattern, text, re.IGNORECASE)), "")


_HINTS = (
    (
        r"access denied for user .* to database|permission denied|command denied",
        "grant the user the rights it needs, or use another user",
    ),
    (r"access denied|password authentication failed|authentication failed|no password supplied", "check user and password"),
    (r"unknown database|database .* does not exist", "check the URL's last part, or create the database"),
    (r"unable to open database file", "the folder must exist and be writable"),
    (r"no unique or exclusion constraint|ON CONFLICT clause does not match", "mode needs a unique index on the key's columns"),
    (
        r"certificate verify failed|does not match host name",
        "check tls: {authority: …, verify: …} and the host's name in the URL",
    ),
    (r"cryptography", "pip install 'PyMySQL[rsa]'"),
)

# ── MySQL, MariaDB ────────────────────────────────────────────────────────────────────────────────

_MYSQL_TEMPORARY = {
    *(0, 1020, 1021, 1026, 1030, 1037, 1038, 1041, 1114, 1180, 1637),  # handler, disk, memory
    *(1040, 1042, 1043, 1047, 1053, 1077, 1078, 1079, 1080, 1152, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184),
    *(1203, 1226, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 4031),  # connections, network, shutdown
    *(1205, 1213, 3058, 3100, 3101, 3572),  # locks, deadlocks, certification of a cluster
    *(1290, 1317, 1792, 1836, 1969, 3024, 3169),  # read-only for now, interrupted
}
_MYSQL_ROWS = {
    *(1048, 1364, 1263, 1062, 1169, 1557, 1586, 1761, 1762),  # null, duplicate
    *(1153, 1261, 1262, 1264, 1265, 1292, 1300, 1365, 1366, 1367, 1406, 1411, 1416, 1426, 1441, 1690),  # length, range, value
    *(1216, 1217, 1451, 1452, 1526, 1644, 1748, 3819, 4025),  # foreign keys, checks, errors raised by triggers
    *(3140, 3141, 3156, 3157, 3616, 3903, 4038),  # JSON, points
}


def _classify_mysql(error: Exception) -> ErrorMeaning | None:
    import pymysql  # type: ignore[import-untyped]

    if not isinstance(error, pymysql.MySQLError):
        return "temporary" if isinstance(error, OSError) else None
    if isinstance(getattr(error, "original_exception", None), ssl.SSLCertVerificationError):
        return "permanent"
    code = error.args[0] if error.args and isinstance(error.args[0], int) else None
    if code in _MYSQL_TEMPORARY or (code is None and isinstance(error, pymysql.InterfaceError)):
        return "temporary"
    return "rows" if code in _MYSQL_ROWS or isinstance(error, pymysql.DataError) else "permanent"


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────────────

_REFUSED = re.compile(r"FATAL:|authentication|certificate verify failed|does not match host name|root certificate", re.IGNORECASE)
_BUSY = re.compile(r"starting up|shutting down|too many (clients|connections)|remaining connection slots|recovery mode")


_POSTGRESQL_CREATED = ("42710", "42P07")
"""duplicate object, duplicate table: besides 23505, what CREATE TABLE IF NOT EXISTS says if another session creates the table at
the same moment. Callers ignore it as they ignore 23505."""


def _classify_postgresql(error: Exception) -> ErrorMeaning | None:
    import psycopg

    if not isinstance(error, psycopg.Error):
        return "temporary" if isinstance(error, OSError) else None
    state = error.sqlstate
    if state is None:
        if isinstance(error, psycopg.DataError):
            return "rows"
        refused = _REFUSED.search(str(error)) and not _BUSY.search(str(error))
        return "permanent" if refused or not isinstance(error, psycopg.OperationalError) else "temporary"
    if state[:2] in ("22", "23", "44", "54", "P0") or state in _POSTGRESQL_CREATED:
        return "rows"
    if state[:2] in ("08", "40", "53", "57", "58") or state in ("55P03", "25006", "25P02", "25P03", "XX000"):
        return "temporary"
    return "permanent"


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────

_SQLITE_TEMPORARY = frozenset([5, 6, 7, 10, 13, 15])
"""busy, locked, out of memory, input/output error, full, locking protocol"""
_SQLITE_ROWS = frozenset([18, 19, 20])
"""too big, constraint, mismatch"""


def _classify_sqlite(error: Exception) -> ErrorMeaning | None:
    import sqlite3

    if isinstance(error, OverflowError):
        return "rows"
    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _SQLITE_TEMPORARY:
        return "temporary"
    return "rows" if code in _SQLITE_ROWS or isinstance(error, sqlite3.DataError) else "permanent"


_CLASSIFIERS: dict[Dialect, Callable[[Exception], ErrorMeaning | None]] = {
    "mysql": _classify_mysql,
    "postgresql": _classify_postgresql,
    "sqlite": _classify_sqlite,
}
