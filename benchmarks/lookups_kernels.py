"""The steps of the benchmark of look-up tables, each a process: make the data, build the tables, ask them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from connectors.lookup_tables.file import FileTable
from etl.tables.table_file import MappedTable, Match, Shape
from etl.tables.table_file import build as build_table
from etl.tables.table_store import LiveTable, TableRequest, read_version, refresh

ROWS, NETWORKS, PROBES, BATCH = 10_000_000, 1_000_000, 2_000_000, 40_000
PATTERNS = 100_000
SCHEMA = pa.schema([("category", pa.string()), ("score", pa.int32())])


def data(folder: Path) -> None:
    """The two CSV files and the addresses to be looked up, the same each time."""
    random = np.random.default_rng(1)
    numbers = np.unique(random.integers(1 << 24, 1 << 32, ROWS + ROWS // 50, dtype=np.uint64))
    random.shuffle(numbers)
    categories = pa.array([f"category-{n:011d}" for n in range(1000)])
    columns = {
        "ip": texts(numbers[:ROWS]),
        "category": categories.take(pa.array(random.integers(0, 1000, ROWS))),
        "score": pa.array(random.integers(0, 101, ROWS)),
    }
    csv.write_csv(pa.table(columns), folder / "intel.csv")
    probe_random = np.random.default_rng(2)
    known = columns["ip"].take(pa.array(probe_random.permutation(ROWS)[:PROBES]))
    other = texts(probe_random.integers(1 << 24, 1 << 32, PROBES, dtype=np.uint64))
    parquet.write_table(pa.table({"known": known, "other": other}), folder / "probes.parquet")
    prefixes = pa.array(random.integers(16, 33, NETWORKS)).cast(pa.string())
    networks = pc.binary_join_element_wise(texts(random.integers(1 << 24, 1 << 32, NETWORKS, dtype=np.uint64)), prefixes, "/")
    csv.write_csv(pa.table({"network": networks, "score": pa.array(random.integers(0, 101, NETWORKS))}), folder / "networks.csv")


def texts(numbers: Any) -> pa.Array:
    """Addresses as texts."""
    octets = [pa.array((numbers >> np.uint64(shift)).astype(np.int64) & 255).cast(pa.string()) for shift in (24, 16, 8, 0)]
    return pc.binary_join_element_wise(*octets, ".")


def tables(folder: Path) -> tuple[TableRequest, TableRequest]:
    """The addresses and the networks."""
    intel = FileTable.model_validate({"path": str(folder / "intel.csv"), "key": "ip", "columns": {"score": "int"}})
    networks = FileTable.model_validate({"path": str(folder / "networks.csv"), "key": "network", "columns": {"score": "int"}})
    by_network = Shape(("network",), pa.schema([("score", pa.int32())]), "cidr")
    return TableRequest("intel", intel, Shape(("ip",), SCHEMA)), TableRequest("networks", networks, by_network)


def patterns(folder: Path) -> dict[str, float]:
    """Events a CPU second against 100,000 patterns, each way; seconds to build them, and to map them in a worker."""
    random = np.random.default_rng(3)
    letters = np.frombuffer(b"abcdefghijklmnoprstuvwxyz", np.uint8)
    words = [letters[random.integers(0, len(letters), size)].tobytes().decode() for size in random.integers(3, 10, 5000)]

    def word() -> str:
        return words[random.integers(0, len(words))]

    def domain() -> str:
        return f"{word()}-{word()}.{('com', 'net', 'org')[random.integers(0, 3)]}"

    lines = pa.array(
        [f"192.0.2.7 GET https://{domain()}/{word()}/{word()} 200 {n} {word()} {'x' * 100}"[:100] for n in range(BATCH)]
    )
    found: dict[str, float] = {}
    for match, forms in FORMS.items():
        keys = [
            forms[n % len(forms)].format(domain().replace(".", r"\." if match == "regex" else "."), word())
            for n in range(PATTERNS)
        ]
        batch = pa.RecordBatch.from_pydict({"key": keys, "score": pa.array(range(PATTERNS), pa.int32())})
        began = time.process_time()
        build_table(folder / match, lambda rows=batch: [rows], Shape(("key",), pa.schema([("score", pa.int32())]), match))  # type: ignore[misc]
        found[f"{match}_build"] = time.process_time() - began
        began = time.perf_counter()
        mapped = MappedTable(folder / match)
        found[f"{match}_open"] = time.perf_counter() - began
        mapped.find([lines])
        found[match] = speed(lines, lambda rows, of=mapped: of.values("score", of.first_rows(of.find([rows]))))  # type: ignore[misc]
        found[f"{match}_file"] = (folder / match).stat().st_size / 1e6
    return found


FORMS: Mapping[Match, tuple[str, ...]] = {
    "like": ("%.{0}", "%{0}/{1}%", "https://{0}/%", "%{0}%{1}.exe"),
    "regex": ("{0}/[a-z0-9]+/login", "(?i){0}$", "^https?://{0}/.*\\.exe", "{0}/(?:{1}|admin)\\d+"),
}
"""Patterns of a domain and a word."""


def build(folder: Path) -> None:
    """Build the table of addresses as a run does."""
    path = folder / "intel.csv"
    path.touch()  # changed: it is read again
    refresh(tables(folder)[0], folder)


def ask(folder: Path) -> dict[str, float]:
    """Look-ups a CPU second, and sizes in MB."""
    intel, networks = tables(folder)
    refresh(networks, folder)
    mapped, cidr = (LiveTable(folder / one.id).newest() for one in (intel, networks))
    known, other = (column.combine_chunks() for column in parquet.read_table(folder / "probes.parquet").columns)

    def exact(batch: pa.Array) -> None:
        rows = mapped.first_rows(mapped.find([batch]))
        assert (rows >= 0).all()
        mapped.values("category", rows)
        mapped.values("score", rows)

    found = {
        "exact": speed(known, exact),
        "found": speed(other, lambda batch: mapped.find([batch])),
        "cidr": speed(other, lambda batch: cidr.values("score", cidr.first_rows(cidr.find([batch])))),
    }
    only_key = csv.ConvertOptions(include_columns=["ip"])
    for batch in csv.read_csv(folder / "intel.csv", convert_options=only_key).to_batches():
        mapped.find([batch.column(0)])
    return {
        **found,
        "file": megabytes(folder, intel),
        "cidr_found": int(np.count_nonzero(cidr.first_rows(cidr.find([other])) >= 0)),
        "networks": megabytes(folder, networks),
        "resident": resident(folder, intel),
    }


def speed(keys: pa.Array, work: Callable[[pa.Array], Any]) -> float:
    """Keys a CPU second, batch by batch; the best of three."""
    batches = [keys.slice(at, BATCH) for at in range(0, len(keys), BATCH)]
    taken = []
    for _ in range(3):
        began = time.process_time()
        for batch in batches:
            work(batch)
        taken.append(time.process_time() - began)
    return len(keys) / min(taken)


def file_of(folder: Path, request: TableRequest) -> Path:
    """The table file in use."""
    known = read_version(folder / request.id)
    assert known is not None
    return folder / request.id / known.file


def megabytes(folder: Path, request: TableRequest) -> float:
    """Of a table file."""
    return file_of(folder, request).stat().st_size / 1e6


def resident(folder: Path, request: TableRequest) -> float:
    """Megabytes of a mapped file that are in memory, as the kernel says."""
    mine, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            mine = line.endswith(str(file_of(folder, request)))
        elif mine and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total / 1e6


WHAT: Mapping[str, Callable[[Path], dict[str, float] | None]] = {"data": data, "build": build, "ask": ask, "patterns": patterns}

if __name__ == "__main__":
    result = WHAT[sys.argv[1]](Path(sys.argv[2]))
    if result:
        print(json.dumps(result))
