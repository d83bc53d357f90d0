"""Peers of the benchmark of look-up tables: the same rows and keys in tables of others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import measure
from benchmarks.contenders import OTHERS, prepare_peers
from benchmarks.folders import CACHE, HERE
from benchmarks.lookups_kernels import PROBES
from benchmarks.results import Row

EXACT, CIDR = "10,000,000 rows", "1,000,000 networks"
PEERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "duckdb": {
        "file": (f"{EXACT}: file of DuckDB", "MB"),
        "memory": (f"{EXACT}: memory of DuckDB", "MB PSS"),
        "build": (f"{EXACT}: built from CSV by DuckDB", "CPU s"),
        "some": (f"{EXACT}: joined with 40,000 addresses at a time by DuckDB", "/CPU s"),
        "once": (f"{EXACT}: joined with {PROBES:,} addresses at once by DuckDB", "/CPU s"),
    },
    "sqlite": {
        "file": (f"{EXACT}: file of SQLite", "MB"),
        "memory": (f"{EXACT}: memory of SQLite", "MB PSS"),
        "some": (f"{EXACT}: address by address in SQLite", "/CPU s"),
    },
    "maxmind": {
        "file": (f"{CIDR}: file of MaxMind DB", "MB"),
        "memory": (f"{CIDR}: memory of MaxMind DB", "MB PSS"),
        "some": (f"{CIDR}: address by address in MaxMind DB", "/CPU s"),
    },
}
"""What each finds: how its row is called, and the unit."""


def rows(folder: Path, times: int, networks_found: float) -> Iterator[Row]:
    """All peers, a process each; ``networks_found`` is how many of the other addresses we find in a network."""
    try:
        prepare_peers()
    except (OSError, subprocess.CalledProcessError) as error:
        yield Row("Peers", "/CPU s", remark=f"not in this run, they could not be installed: {error}")
        return
    for peer, labels in PEERS.items():
        named = {name: Row(*label) for name, label in labels.items()}
        for _ in range(times):
            found = _run_peer(peer, folder)
            for name, row in named.items():
                row.values.append(found[name])
        named["some"].remark = _compared(found, networks_found)
        yield from named.values()


def _run_peer(peer: str, folder: Path) -> dict[str, float]:
    argv = ["taskset", "--cpu-list", "0", str(OTHERS), str(HERE / "peers" / "lookups.py"), peer, str(folder), str(CACHE)]
    _, out, _ = measure.run(argv, folder)
    return json.loads(out)


def _compared(found: Mapping[str, float], networks_found: float) -> str:
    """What was found beside what we find, in words."""
    if "missed" in found:
        return f"{found['missed']:,.0f} of the addresses not found; we find all" if found["missed"] else "all found, as by us"
    same = "as by us" if found["found"] == networks_found else f"by us {networks_found:,.0f}"
    return f"{found['found']:,.0f} of {PROBES:,} addresses lie in a network, {same}"
