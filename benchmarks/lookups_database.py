"""Look-up tables out of MariaDB: the rows of the CSV file, in a server of the tests."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.database import PASSWORD, Node, started
from benchmarks.lookups_kernels import SCHEMA
from connectors.lookup_tables.database import DatabaseTable
from etl.tables.table_file import Shape
from etl.tables.table_store import TableRequest, refresh

CHANGED = 10_000
TYPES = "id BIGINT AUTO_INCREMENT PRIMARY KEY, ip VARCHAR(15) NOT NULL, category VARCHAR(20) NOT NULL, score INT NOT NULL, "
_LOGIN_FILE = "server.json"


@contextmanager
def loaded(folder: Path) -> Iterator[Loaded]:
    """A server with the rows, while it is needed."""
    with started("mysql") as server:
        node = Node(server, "mysql")
        (folder / _LOGIN_FILE).write_text(json.dumps({"url": node.url, "user": server.user}))
        _fill(server, folder)
        yield Loaded(node)


@dataclass
class Loaded:
    """The server."""

    node: Node

    def measured(self, call: Callable[[str], dict[str, float]]) -> dict[str, float]:
        """Built whole, then of what changed; ``call`` runs `build` in a process of its own."""
        before = self.node.cpu()
        found = call("whole")
        server = self.node.cpu() - before
        first = call("changes")
        self.node.run(f"UPDATE intel SET score = score + 1, changed = utc_timestamp(6) WHERE id % 997 = 5 LIMIT {CHANGED}")
        again = call("changes")
        return {
            "mariadb": found["seconds"],
            "mariadb_cpu": found["cpu"],
            "mariadb_server": server,
            "mariadb_memory": max(found["memory"], first["memory"], again["memory"]),
            "mariadb_changes": again["seconds"],
        }


def _fill(server: Any, folder: Path) -> None:
    """A row of the file a row; all were changed in the year before."""
    import pymysql  # type: ignore[import-untyped]

    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    connection = pymysql.connect(**login, database=server.database, local_infile=True, autocommit=True)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE intel ({TYPES} changed DATETIME(6) NOT NULL) ENGINE=InnoDB")
        cursor.execute(
            f"LOAD DATA LOCAL INFILE '{folder / 'intel.csv'}' INTO TABLE intel "
            "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' IGNORE 1 LINES "
            "(ip, category, score) SET changed = TIMESTAMP'2025-01-01 00:00:00' + INTERVAL 1000 * score SECOND"
        )
        cursor.execute("CREATE INDEX changed ON intel (changed)")


def build(folder: Path, how: str) -> dict[str, float]:
    """Build the table as a run does: ``whole``, or what changed where it was built by its ``changes`` before."""
    login = json.loads((folder / _LOGIN_FILE).read_bytes())
    options = {"table": "intel", "key": "ip", "columns": {"score": "int"}, "refresh": "1m"}
    given = {**login, **options, "password": os.environ[PASSWORD], **({"time": "changed"} if how == "changes" else {})}
    began = time.monotonic()
    refresh(TableRequest("mariadb", DatabaseTable.model_validate(given), Shape(("ip",), SCHEMA)), folder / "from-mariadb")
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    return {"seconds": time.monotonic() - began, "cpu": cpu, "memory": used.ru_maxrss * 1024 / 1e6}


if __name__ == "__main__":
    print(json.dumps(build(Path(sys.argv[2]), sys.argv[1])))
