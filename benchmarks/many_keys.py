"""Fifty million keys in running totals and in `dedupe`: memory and disk; a restart on ten million, and a window of as many that
closes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import measure
from benchmarks.folders import fresh
from benchmarks.follow import wait_until
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Fifty million keys"
MAX_KEYS, RESTART_KEYS, BLOCK = 50_000_000, 10_000_000, 1_000_000
ABOUT = (
    "Files of JSON lines of as many addresses as lines are read once on `local[1]` into running totals (`window` of a day, "
    "results on change) or `dedupe`. *Bytes a key* are those of the state folder. PSS is of all processes, with the pages of "
    "mapped files that are in memory, while the lines are read and after the restart. *Restart* is a run on `local[2]` that "
    "continues with 1,000 more lines: from its start to its first result. The last row is a window of a day with as many groups "
    "on `local[1]`, which closes at the end (`--drain`). Files are on disk."
)
TOTALS = """{{type: window, time: time, size: 1d, late: 1h, emit: on_change, group_by: [ip],
         aggregates: {{bytes: sum(bytes)}}, having: bytes >= 5000}}"""
DEDUPE = """{{type: dedupe, keys: [ip], time: time, within: 1d, late: 1h}}
      - {{type: filter, where: bytes >= 5000}}"""
CLOSING = "{{type: window, time: time, size: 1d, late: 1h, group_by: [ip], aggregates: {{bytes: sum(bytes)}}}}"
PIPELINE = """
name: many-keys
sources:
  log: {{type: file, path: "{folder}/in/*.jsonl"}}
streams:
  totals:
    from: log
    steps:
      - {{type: json, fields: {{time: timestamp, ip: string, bytes: bigint}}}}
      - STEP
sinks:
  out: {{from: totals, type: file, path: "{folder}/out.json"}}
run: {{max_batch_bytes: 16MB}}
"""


def run(_: Settings) -> Result:
    """Each once."""
    runs = [("totals", TOTALS, RESTART_KEYS), ("dedupe", DEDUPE, RESTART_KEYS)]
    runs += [("totals", TOTALS, MAX_KEYS), ("dedupe", DEDUPE, MAX_KEYS)]
    rows = [row for kind, step, keys in runs for row in _measured(kind, step, keys)]
    rows.append(_closing(RESTART_KEYS))
    fresh("many-keys", on_disk=True)
    return Result("many-keys", TITLE, ABOUT, rows)


def _prepared(keys: int, step: str) -> Path:
    """A folder with an event of each key, and a pipeline that reads them."""
    folder = fresh("many-keys", on_disk=True)
    (folder / "in").mkdir()
    for first in range(0, keys, BLOCK):
        _write(folder / "in" / f"{first:012d}.jsonl", np.arange(first, first + BLOCK), 100)
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("STEP", step).format(folder=folder))
    return folder


def _closing(groups: int) -> Row:
    """The memory of a run whose window closes."""
    folder = _prepared(groups, CLOSING)
    argv = [sys.executable, "-m", "etl", "run", str(folder / "pipeline.yaml"), "--state", str(folder / "state")]
    cost, _, _ = measure.run([*argv, "--once", "--drain", "--master", "local[1]"], folder)
    with (folder / "out.json").open("rb") as output:
        results = sum(1 for _ in output)
    if results != groups:
        raise ValueError(f"{folder}: {results} groups of {groups}")
    print(f"  {groups:,} groups of a window that closes: {cost.peak:.0f} MB", file=sys.stderr, flush=True)
    return Row(f"{groups:,} groups of a window that closes, memory", "MB PSS", [cost.peak], at_most=1000.0)


def _measured(kind: str, step: str, keys: int) -> list[Row]:
    folder = _prepared(keys, step)
    argv = [sys.executable, "-m", "etl", "run", str(folder / "pipeline.yaml"), "--state", str(folder / "state")]
    cost, _, _ = measure.run([*argv, "--once", "--master", "local[1]"], folder)
    size = sum(file.stat().st_size for file in (folder / "state").rglob("rows-*") if file.is_file())
    seconds, restarted = _restart(argv, folder, keys)
    name = f"{keys:,} keys, {kind}"
    found = f"{size / keys:.0f} bytes a key, {cost.peak:.0f} MB, restart {seconds:.1f} s with {restarted:.0f} MB"
    print(f"  {name}: {found}", file=sys.stderr, flush=True)
    loading = Row(f"{name}, read", "events/CPU s", [keys / cost.cpu], cpu=[cost.cpu], pss=[cost.peak], wall=[cost.wall])
    return [
        loading,
        Row(f"{name}, state", "bytes a key", [size / keys], at_most=100.0),
        Row(f"{name}, memory", "MB PSS", [cost.peak], at_most=1000.0 if keys == MAX_KEYS else None),
        Row(f"{name}, memory after the restart", "MB PSS", [restarted], at_most=1000.0 if keys == MAX_KEYS else None),
        Row(f"{name}, restart", "s", [seconds], at_most=10.0 if keys == RESTART_KEYS else None),
    ]


def _restart(argv: list[str], folder: Path, keys: int) -> tuple[float, float]:
    """Seconds from the start of a run to its first result, and its most MB. Half of the lines have new keys."""
    _write(folder / "in" / "last.jsonl", np.linspace(0, 2 * keys - 1, 1000).astype(np.int64), 5000)
    output = folder / "out.json"
    before = output.stat().st_size if output.exists() else 0
    with measure.Command([*argv, "--master", "local[2]"], folder) as command:
        wait_until(lambda: output.exists() and output.stat().st_size > before, command, 120.0)
        seconds = time.monotonic() - command.began
        command.terminate()
        cost = command.wait(60)
    return seconds, cost.peak


def _write(file: Path, keys: np.ndarray[tuple[int], np.dtype[np.int64]], number: int) -> None:
    """An event of each key."""
    names = pa.array(keys + 100_000_000).cast(pa.string())
    lines = pc.binary_join_element_wise('{"time":"2026-11-20T06:00:00Z","ip":"', names, f'","bytes":{number}}}', "")
    file.write_bytes("\n".join(lines.to_pylist()).encode() + b"\n")
