"""Look-up tables of others: ``lookups.py PEER FOLDER CACHE`` prints what it found as JSON.

The tables are `intel.csv` and `networks.csv` of the folder, the keys `probes.parquet`; one thread. ``PEER`` is ``duckdb``,
``sqlite`` or ``maxmind``. Speeds are keys a CPU second, sizes are megabytes; memory is what the process has after the
look-ups beyond what it had before the table was opened.
"""

import hashlib
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

peer, folder, cache = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
BATCH, FEW, SLICE = 40_000, 400_000, 100_000
QUERY = "SELECT category, score FROM {probes} LEFT JOIN intel USING (ip)"


def probes(name: str) -> pa.Array:
    """The keys to be looked up."""
    return pa.parquet.read_table(folder / "probes.parquet", columns=[name]).column(0).combine_chunks()


def memory() -> float:
    """What this process has, shared pages counted in part."""
    rollup = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) * 1024 / 1e6


def speed(keys: pa.Array, batch: int, work: Callable[[pa.Array], int]) -> tuple[float, int]:
    """Keys a CPU second, and how many were found."""
    parts = [keys.slice(at, batch) for at in range(0, len(keys), batch)]
    began = time.process_time()
    found = sum(work(part) for part in parts)
    return len(keys) / (time.process_time() - began), found


def duckdb() -> dict[str, float]:
    """A table in DuckDB's file, joined with keys as they come: some, and all at once."""
    import duckdb as library

    file = folder / "intel.duckdb"
    file.unlink(missing_ok=True)
    columns = "{'ip': 'VARCHAR', 'category': 'VARCHAR', 'score': 'INTEGER'}"
    began = time.process_time()
    with library.connect(file, config={"threads": 1}) as database:
        database.execute(f"CREATE TABLE intel AS FROM read_csv('{folder}/intel.csv', columns = {columns}, header = true)")
    built = time.process_time() - began
    keys, before = probes("known"), memory()
    database = library.connect(file, config={"threads": 1})

    def joined(part: pa.Array) -> int:
        requested = pa.table({"ip": part})  # DuckDB finds it by this name
        out = database.sql(QUERY.format(probes="requested")).to_arrow_table()
        return len(requested) - out.column("score").null_count

    some, first = speed(keys[:FEW], BATCH, joined)
    grown = memory() - before
    once, found = speed(keys, len(keys), joined)
    return {
        "build": built,
        "file": megabytes(file),
        "memory": grown,
        "some": some,
        "once": once,
        "missed": missed(keys, first, found),
    }


def missed(keys: pa.Array, first: int, found: int) -> int:
    """How many keys of those that are there were not found."""
    return FEW - first + len(keys) - found


def sqlite() -> dict[str, float]:
    """A table in SQLite's file, of which the address is the primary key; a statement a key."""
    file = cached_file("intel.csv", "sqlite", write_sqlite)
    keys, before = probes("known")[:FEW], memory()
    database = sqlite3.connect(f"file:{file}?immutable=1", uri=True)
    database.execute(f"PRAGMA mmap_size = {file.stat().st_size}")

    def each(part: pa.Array) -> int:
        ask = database.execute
        return sum(
            ask("SELECT category, score FROM intel WHERE ip = ?", (key,)).fetchone() is not None for key in part.to_pylist()
        )

    some, found = speed(keys, BATCH, each)
    return {"file": megabytes(file), "memory": memory() - before, "some": some, "missed": len(keys) - found}


def write_sqlite(source: Path, file: Path) -> None:
    """All rows."""
    database = sqlite3.connect(file)
    database.executescript("PRAGMA journal_mode = off; PRAGMA synchronous = off")
    database.execute("CREATE TABLE intel (ip TEXT PRIMARY KEY, category TEXT, score INTEGER) WITHOUT ROWID")
    database.executemany("INSERT INTO intel VALUES (?, ?, ?)", rows(source))
    database.commit()
    database.close()


def rows(source: Path) -> Iterator[tuple[Any, ...]]:
    """Those of the table in the order of their keys, which is how SQLite takes them fastest."""
    table = pa.csv.read_csv(source).sort_by("ip")
    for at in range(0, len(table), SLICE):
        yield from zip(*(column.to_pylist() for column in table.slice(at, SLICE).columns), strict=True)


def maxmind() -> dict[str, float]:
    """Networks in a MaxMind DB."""
    import maxminddb

    file = cached_file("networks.csv", "mmdb", write_mmdb)
    keys, before = probes("other"), memory()
    reader = maxminddb.open_database(file, maxminddb.MODE_MMAP_EXT)

    def each(part: pa.Array) -> int:
        get = reader.get
        return sum(get(key) is not None for key in part.to_pylist())

    some, found = speed(keys, BATCH, each)
    return {"file": megabytes(file), "memory": memory() - before, "some": some, "found": found}


def write_mmdb(networks: Path, file: Path) -> None:
    """Longer prefixes last, for they overwrite; of the same network the first row is meant to stay, as with us."""
    from mmdb_writer import MMDBWriter
    from netaddr import IPSet

    table = pa.csv.read_csv(networks)
    given = zip(reversed(table["network"].to_pylist()), reversed(table["score"].to_pylist()), strict=True)
    writer = MMDBWriter(ip_version=4, int_type="u16")
    for network, score in sorted(given, key=lambda one: int(one[0].split("/")[1])):
        writer.insert_network(IPSet([network]), {"score": score})
    writer.to_db_file(str(file))


def cached_file(name: str, suffix: str, write: Callable[[Path, Path], None]) -> Path:
    """A file of a CSV file's rows, written when that file is first seen: it takes half a minute, and a whole one for `mmdb`."""
    with (source := folder / name).open("rb") as lines:
        digest = hashlib.file_digest(lines, "sha256").hexdigest()
    file = cache / f"{digest[:16]}.{suffix}"
    if not file.exists():
        part = file.with_suffix(".part")
        part.unlink(missing_ok=True)
        write(source, part)
        part.rename(file)
    return file


def megabytes(file: Path) -> float:
    """Of a file."""
    return file.stat().st_size / 1e6


print(json.dumps({"duckdb": duckdb, "sqlite": sqlite, "maxmind": maxmind}[peer]()))
