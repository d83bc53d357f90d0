"""Look-up tables: ten million addresses, a million networks; what they take and how fast they are found."""

from __future__ import annotations

import json
import os
import shutil
import sys

from benchmarks import lookups_database, lookups_peers, measure
from benchmarks.database import PASSWORD
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from etl.spark.session import WORKER_ENVIRONMENT

TITLE = "Look-up tables"
ABOUT = (
    "A CSV file of 10,000,000 rows (an IPv4 address, one of 1,000 categories of 20 bytes, a score of 0 to 100) becomes a table "
    "in a process of its own, as a run does it; wall clock and memory are of that process and what it starts. The same rows "
    "come out of a table of MariaDB 10.11 on the same machine, of which a refresh reads by an index what changed. Then 40,000 "
    "addresses at a time, in no order, are looked up in one process with a worker's settings: all of them are found, and both "
    "values of each are made columns. Resident is what of the mapped file was in memory after every row was found once. The "
    "networks are 1,000,000 of random prefixes of 16 to 32 bits, the addresses random. The patterns "
    "are of a domain of two words and mostly a word, the lines of 100 bytes with a URL of such a domain; hardly any is hit. "
    "Peers have the same rows and addresses, one thread, and a driver in Python: DuckDB joins a column of addresses with its "
    "table (both values come out as columns), SQLite is asked a statement an address, the table's key; a MaxMind DB, written "
    "by mmdb-writer, is asked address by address by its reader in C. Their memory is what the process has more "
    "after the look-ups than before it opened the table."
)


def run(settings: Settings) -> Result:
    """Built and asked ``settings.runs`` times."""
    folder = fresh("lookups")
    rows = {
        "file": Row("10,000,000 rows: file", "MB", at_most=150),
        "resident": Row("10,000,000 rows: resident", "MB", at_most=150),
        "build": Row("10,000,000 rows: built from CSV", "s", at_most=30),
        "memory": Row("10,000,000 rows: memory while built", "MB PSS", at_most=1000),
        "mariadb": Row("10,000,000 rows: built from MariaDB", "s", at_most=60),
        "mariadb_cpu": Row("10,000,000 rows: built from MariaDB, our CPU", "s"),
        "mariadb_server": Row("10,000,000 rows: built from MariaDB, the server's CPU", "s"),
        "mariadb_memory": Row("10,000,000 rows: memory while built from MariaDB", "MB RSS", at_most=1000),
        "mariadb_changes": Row("10,000,000 rows: built anew from the 10,000 that changed in MariaDB", "s"),
        "exact": Row("10,000,000 rows: exact look-ups of two values", "/CPU s", at_least=5_000_000),
        "found": Row("10,000,000 rows: exact look-ups of none", "/CPU s"),
        "cidr": Row("1,000,000 networks: longest prefix and a value", "/CPU s", at_least=2_000_000),
        "networks": Row("1,000,000 networks: file", "MB"),
        "like": Row("100,000 LIKE patterns, 100-byte lines", "/CPU s", at_least=300_000),
        "like_build": Row("100,000 LIKE patterns: built", "CPU s"),
        "like_file": Row("100,000 LIKE patterns: file", "MB"),
        "like_open": Row("100,000 LIKE patterns: mapped by a worker", "s", at_most=1),
        "regex": Row("100,000 regular expressions, 100-byte lines", "/CPU s", at_least=300_000),
        "regex_build": Row("100,000 regular expressions: built", "CPU s"),
        "regex_file": Row("100,000 regular expressions: file", "MB"),
        "regex_open": Row("100,000 regular expressions: mapped by a worker", "s", at_most=1),
    }
    _call("data", folder)
    for _ in range(settings.runs):
        cost, _ = _call("build", folder)
        found = {"build": cost.wall, "memory": cost.peak, **_call("ask", folder)[1], **_call("patterns", folder)[1]}
        networks_found = found.pop("cidr_found")
        for name, value in found.items():
            rows[name].values.append(value)
    with lookups_database.loaded(folder) as server:
        for _ in range(settings.runs):
            shutil.rmtree(folder / "from-mariadb", ignore_errors=True)
            for name, value in server.measured(lambda how: _call(how, folder, module="lookups_database")[1]).items():
                rows[name].values.append(value)
    every = [*rows.values(), *lookups_peers.rows(folder, settings.runs, networks_found)]
    for row in every:
        print(f"  {row.label}: {row.median or 0:,.3g} {row.unit}", file=sys.stderr, flush=True)
    return Result("lookups", TITLE, ABOUT, every)


def _call(*words: object, module: str = "lookups_kernels") -> tuple[measure.Cost, dict[str, float]]:
    """A step in a process of its own; the folder comes last."""
    argv = [sys.executable, "-m", f"benchmarks.{module}", *map(str, words)]
    password = {PASSWORD: os.environ[PASSWORD]} if PASSWORD in os.environ else {}
    cost, out, _ = measure.run(argv, words[-1], env={**WORKER_ENVIRONMENT, **password})  # type: ignore[arg-type]
    return cost, json.loads(out) if out.strip() else {}
