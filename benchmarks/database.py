"""Rows into MariaDB and PostgreSQL, beside loaders that are written by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks.contenders import PIPELINES
from benchmarks.folders import HERE, ROOT, fresh
from benchmarks.measure import Command
from benchmarks.processes import cpu_of, cpu_of_ended, until
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Rows into databases"
ABOUT = (
    "JSON lines of 270 bytes become rows of ten columns (no index) in MariaDB 10.11 and PostgreSQL, on the machine that runs the "
    "loaders, too. The loader by hand is one process that reads JSON with the standard library and hands 10,000 rows at a time "
    "to PyMySQL's `executemany` or psycopg's COPY, a transaction each; two of them share the file where it says so. `etl run` on "
    "`local[2]` follows the file, parses the lines into typed fields and delivers exactly once, with its ledger, 10,000 rows a "
    "transaction, as it does by default; its workers have written 100,000 rows before. The target is 60,000 rows/s into MariaDB, "
    "or 80 % of the better loader in the same run. Seconds of CPU are the loader's; the server's have rows of their own."
)
ROWS = 1_000_000
WARM = 100_000
RATE = 60_000.0
SHARE = 80.0
"""Per cent of the better loader's rate."""

LOADER = HERE / "peers" / "row_loader.py"
PASSWORD = "SLUICE_BENCH_PASSWORD"
TYPES = {
    "mysql": "BIGINT, DATETIME(6), VARCHAR(64), VARCHAR(64), VARCHAR(45), INT, VARCHAR(16), BIGINT, DOUBLE, TEXT",
    "postgresql": "BIGINT, TIMESTAMPTZ, VARCHAR(64), VARCHAR(64), VARCHAR(45), INT, VARCHAR(16), BIGINT, FLOAT8, TEXT",
}
_WRITTEN = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'HANDLER_WRITE'"
COLUMNS = ("id", "seen", "host", "user_name", "ip", "port", "status", "bytes", "took", "message")


class Node:
    """A server, and what it has done."""

    def __init__(self, server: Any, kind: str) -> None:
        self.server, self.kind = server, kind
        self._process = psutil.Process(server.process.pid)
        self._written = self._bytes = 0
        self._session: Any = None
        os.environ[PASSWORD] = server.password

    def cpu(self) -> float:
        """CPU seconds so far; PostgreSQL has a process for each connection, and counts those that ended for their parent."""
        processes = [self._process, *self._process.children(recursive=True)]
        times = [process.cpu_times() for process in processes if process.is_running()]
        root = times[0]
        return float(sum(used.user + used.system for used in times) + root.children_user + root.children_system)

    def run(self, sql: str) -> Any:
        """Ask it."""
        from connectors.database.session import open_session
        from connectors.database.sink import DatabaseSink

        if self._session is None:  # a connection for each question would be work that the others wait for
            options = {"url": self.url, "user": self.server.user, "password": self.server.password, "table": "x"}
            self._session = open_session(DatabaseSink.model_validate(options).settings)
        cursor = self._session.run(sql)
        return cursor.fetchone()[0] if cursor.description else None

    @property
    def url(self) -> str:
        """For our options."""
        return f"{self.kind}://{self.server.address}/{self.server.database}"

    def rows(self, table: str) -> int:
        """How many there are; they are counted when MariaDB's counter of writes, or PostgreSQL's size of the table, says they
        might be all, for counting costs."""
        if self.kind == "mysql" and int(self.run(_WRITTEN)) - self._written < ROWS + WARM:
            return 0
        if self.kind == "postgresql" and int(self.run(f"SELECT pg_relation_size('{table}')")) < self._bytes:
            return 0
        return int(self.run(f"SELECT count(*) FROM {table}"))

    def fresh_table(self) -> str:
        """An empty table."""
        types = TYPES[self.kind].split(", ")
        self.run("DROP TABLE IF EXISTS bench")
        self.run(f"CREATE TABLE bench ({', '.join(f'{c} {t}' for c, t in zip(COLUMNS, types, strict=True))})")
        if self.kind == "mysql":
            self._written = int(self.run(_WRITTEN))
        return "bench"

    def filled(self, table: str) -> None:
        """A loader has put all rows in: so large is a table that has them."""
        if self.kind == "postgresql":
            self._bytes = int(self.run(f"SELECT pg_relation_size('{table}')"))


@dataclass
class Loader:
    """Who loads: the rate, and the server's cost."""

    row: Row
    server: Row

    @classmethod
    def called(cls, label: str, at_least: float | None = None) -> Loader:
        """Nothing measured yet."""
        return cls(Row(label, "rows/s", at_least=at_least), Row(f"the server's CPU: {label}", "s per million rows"))

    def note(self, seconds: float, cpu: float, server: float) -> None:
        """One run."""
        self.row.values.append(ROWS / seconds)
        self.row.wall.append(seconds)
        self.row.cpu.append(cpu)
        self.server.values.append(server / ROWS * 1e6)


def run(settings: Settings) -> Result:
    """The loaders and the engine in turn, on each server."""
    folder = fresh("database")
    for part, first in (("lines", 0), ("first", 0), ("second", ROWS // 2)):
        (folder / f"{part}.jsonl").write_bytes(json_lines(first, ROWS if part == "lines" else ROWS // 2))
    rows = [
        row for kind, name in (("mysql", "MariaDB"), ("postgresql", "PostgreSQL")) for row in _on(kind, name, folder, settings)
    ]
    return Result("database", TITLE, ABOUT, rows)


def _on(kind: str, name: str, folder: Path, settings: Settings) -> list[Row]:
    one, two, engine = (
        Loader.called(f"{name}: by hand, one process"),
        Loader.called(f"{name}: by hand, two processes"),
        Loader.called(f"{name}: etl run", RATE if kind == "mysql" else None),
    )
    share = Row(f"{name}: etl run, of the better loader's rate", "%", at_least=SHARE)
    with started(kind) as server:
        node = Node(server, kind)
        for _ in range(settings.runs):
            by_hand(node, one, [folder / "lines.jsonl"])
            by_hand(node, two, [folder / "first.jsonl", folder / "second.jsonl"])
            by_engine(node, engine, folder)
            share.values.append(100 * engine.row.values[-1] / max(one.row.values[-1], two.row.values[-1]))
    return [one.row, two.row, engine.row, share, one.server, two.server, engine.server]


def started(kind: str) -> Any:
    """The server of the tests, with memory for work."""
    sys.path.append(str(ROOT / "tests"))
    from servers.databases.mariadb_server import MariaDb
    from servers.databases.postgres_server import Postgres

    kinds: dict[str, Callable[[], Any]] = {
        "mysql": lambda: MariaDb(settings={"innodb-buffer-pool-size": "512M", "innodb-log-file-size": "512M"}),
        "postgresql": lambda: Postgres(settings={"shared_buffers": "256MB", "max_wal_size": "2GB"}),
    }
    return kinds[kind]()


def json_lines(first: int, count: int) -> bytes:
    """JSON lines."""
    text = "Failed password for invalid user from an address that nobody knows, it's nothing to worry about"
    line = (
        '{{"id":{n},"seen":"2026-01-{day:02d}T10:{minute:02d}:07.{micro:06d}Z","host":"web{host:02d}","user_name":"user{user}",'
        '"ip":"10.{a}.{b}.7","port":{port},"status":"failed","bytes":{size},"took":{took},"message":"{text}"}}\n'
    )
    values = (
        {"n": n, "day": 1 + n // 60_000 % 28, "minute": n // 1000 % 60, "micro": n % 1_000_000, "host": n % 37, "user": n % 211}
        | {"a": n // 251 % 251, "b": n % 251, "port": 1024 + n % 60_013, "size": n * 7919 % 10**9, "took": n / 1000, "text": text}
        for n in range(first, first + count)
    )
    return "".join(line.format_map(value) for value in values).encode()


def by_hand(node: Node, loader: Loader, files: list[Path]) -> None:
    """A process for each file."""
    table, server, cpu, began = node.fresh_table(), node.cpu(), cpu_of_ended(), time.monotonic()
    table_address = [node.server.host, str(node.server.port), node.server.user, node.server.database, table]
    words = [[sys.executable, str(LOADER), node.kind, *table_address, str(file)] for file in files]
    running = [subprocess.Popen(line, stdout=subprocess.DEVNULL) for line in words]
    if any([process.wait() for process in running]):  # noqa: C419  # all have to end
        raise RuntimeError("a loader failed")
    seconds = time.monotonic() - began
    if node.run(f"SELECT count(*) FROM {table}") != ROWS:
        raise RuntimeError("the loader lost rows")
    node.filled(table)
    loader.note(seconds, cpu_of_ended() - cpu, node.cpu() - server)


def by_engine(node: Node, loader: Loader, folder: Path) -> None:
    """The engine, once it runs: from the moment when the file grows until the server has all."""
    table, file = node.fresh_table(), folder / "in.jsonl"
    file.write_bytes(json_lines(ROWS, WARM))
    with Command(argv(node, table, folder), folder, {PASSWORD: node.server.password}, every=1.0) as command:
        until(lambda: node.run(f"SELECT count(*) FROM {table}"), WARM, command)
        cpu, server, began = cpu_of(command.process.pid), node.cpu(), time.monotonic()
        with file.open("ab") as grown, (folder / "lines.jsonl").open("rb") as lines:
            grown.write(lines.read())
        until(lambda: node.rows(table), WARM + ROWS, command)
        loader.note(time.monotonic() - began, cpu_of(command.process.pid) - cpu, node.cpu() - server)
        command.terminate()
        if code := command.wait(60).code:
            raise RuntimeError(f"exit {code}; see {command.stderr}")
    if node.run(f"SELECT count(DISTINCT id) FROM {table}") != WARM + ROWS:
        raise RuntimeError("rows were repeated")


def argv(node: Node, table: str, folder: Path) -> list[str]:
    """The command."""
    overrides = {"source.path": folder / "in.jsonl", "sink.url": node.url, "sink.user": node.server.user, "sink.table": table}
    options = [word for name, value in overrides.items() for word in ("--set", f"{name}={value}")]
    state = ["--master", "local[2]", "--state", str(folder / f"state-{time.monotonic_ns()}")]
    return [sys.executable, "-m", "etl", "run", str(PIPELINES / "database.yaml"), *options, *state]
