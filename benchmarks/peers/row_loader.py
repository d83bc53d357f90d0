"""``python row_loader.py KIND HOST PORT USER DATABASE TABLE FILE``: a loader as one writes it by hand, for comparison.

It reads JSON lines with the standard library and hands 10,000 rows at a time to the driver: PyMySQL's `executemany` or
psycopg's COPY, a transaction each. Nothing is checked, tried again or remembered. The password is in ``SLUICE_BENCH_PASSWORD``.
Prints the seconds it took.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BATCH = 10_000
COLUMNS = ("id", "seen", "host", "user_name", "ip", "port", "status", "bytes", "took", "message")


def batches(file: Path) -> Iterator[list[tuple[Any, ...]]]:
    """Rows."""
    with file.open("rb") as lines:
        rows = (tuple(row[name] for name in COLUMNS) for row in map(json.loads, lines))
        while part := list(itertools.islice(rows, BATCH)):
            yield part


def mysql(login: dict[str, Any], database: str, table: str, file: Path) -> None:
    """By `executemany`."""
    import pymysql  # type: ignore[import-untyped]

    connection = pymysql.connect(**login, database=database, charset="utf8mb4")
    statement = f"INSERT INTO {table} ({', '.join(COLUMNS)}) VALUES ({', '.join(['%s'] * len(COLUMNS))})"
    for rows in batches(file):
        with connection.cursor() as cursor:
            cursor.executemany(statement, [(row[0], row[1].rstrip("Z"), *row[2:]) for row in rows])
        connection.commit()


def postgresql(login: dict[str, Any], database: str, table: str, file: Path) -> None:
    """By COPY."""
    import psycopg

    connection = psycopg.connect(**login, dbname=database)
    for rows in batches(file):
        with connection.cursor().copy(f"COPY {table} ({', '.join(COLUMNS)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        connection.commit()


def main() -> None:
    """Load a file."""
    kind, host, port, user, database, table, file = sys.argv[1:]
    login = {"host": host, "port": int(port), "user": user, "password": os.environ["SLUICE_BENCH_PASSWORD"]}
    began = time.monotonic()
    {"mysql": mysql, "postgresql": postgresql}[kind](login, database, table, Path(file))
    print(time.monotonic() - began)


if __name__ == "__main__":
    main()
