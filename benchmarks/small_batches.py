"""Micro-batches of a thousand rows on a state of a million keys, and the first one after a restart."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from benchmarks.folders import fresh
from benchmarks.follow import wait_until
from benchmarks.measure import Command, tree_cpu
from benchmarks.measure import run as run_command
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "A thousand rows on a million keys"
KEYS, ROWS = 1_000_000, 1_000
UNMEASURED, MEASURED = 60, 120
"""Micro-batches: the JVM compiles Spark's code in the first ones."""
IDLE_SECONDS = 4.0
ABOUT = (
    f"A file of {KEYS:,} JSON lines of as many addresses is read once. Then a run on `local[2]` follows it, and {ROWS:,} lines "
    "of random addresses are appended each time the micro-batch before is committed. CPU is of all processes, Spark included, a "
    f"micro-batch of {MEASURED} after {UNMEASURED} others, less that of the same run without input. *No state* is the same "
    "without the stateful step. *Restart* is from the start of the run to the first micro-batch that is committed."
)
STEPS = {
    "no state": "",
    "window": "  - {type: window, time: time, size: 1d, late: 1h, emit: on_change, group_by: [ip],\n"
    "     aggregates: {events: count(*), bytes: sum(bytes), largest: max(bytes)}}\n",
    "dedupe": "  - {type: dedupe, time: time, keys: [ip], within: 1d, late: 1h}\n",
}
LABELS = {"no state": "no state", "window": "window, running totals of each key", "dedupe": "dedupe"}
PIPELINE = """
name: small-batches
source: {{type: file, path: "{folder}/in.jsonl"}}
steps:
  - {{type: json, fields: {{time: timestamp, ip: string, bytes: bigint}}}}
{steps}sink: {{type: discard}}
run: {{trigger: 100ms}}
"""


def run(settings: Settings) -> Result:
    """Each kind of step once."""
    batches = [Row(f"CPU of a micro-batch, {LABELS[kind]}", "ms", at_most=None if kind == "no state" else 60.0) for kind in STEPS]
    restarts = [Row(f"restart, {LABELS[kind]}", "s", at_most=10.0) for kind in STEPS]
    for kind, batch, restart in zip(STEPS, batches, restarts, strict=True):
        seconds, millis = _measured(kind)
        restart.values.append(seconds)
        batch.values.append(millis)
        print(f"  {kind}: {millis:.1f} ms, restart {seconds:.1f} s", file=sys.stderr, flush=True)
    return Result("small-batches", TITLE, ABOUT, [*batches, *restarts])


def _measured(kind: str) -> tuple[float, float]:
    """Seconds of the restart, and milliseconds of CPU of a micro-batch."""
    folder, chance = fresh("small-batches"), random.Random(7)
    (folder / "in.jsonl").write_text("".join(_line(key * 3600 // KEYS, key) for key in range(KEYS)))
    (folder / "pipeline.yaml").write_text(PIPELINE.format(folder=folder, steps=STEPS[kind]))
    argv = [sys.executable, "-m", "etl", "run", str(folder / "pipeline.yaml"), "--state", str(folder / "state")]
    run_command([*argv, "--once", "--master", "local[2]"], folder)
    done = _committed(folder)
    with Command([*argv, "--master", "local[2]"], folder) as command:
        appended = 0

        def append() -> None:
            nonlocal appended
            appended += 1
            with (folder / "in.jsonl").open("a") as log:
                log.write("".join(_line(3600 + appended, chance.randrange(KEYS)) for _ in range(ROWS)))
            wait_until(lambda: _committed(folder) >= done + appended, command, 60.0)

        append()
        restart = time.monotonic() - command.began
        for _ in range(UNMEASURED):
            append()
        before, began = sum(tree_cpu().values()), time.monotonic()
        time.sleep(IDLE_SECONDS)
        idle = (sum(tree_cpu().values()) - before) / (time.monotonic() - began)
        before, began = sum(tree_cpu().values()), time.monotonic()
        for _ in range(MEASURED):
            append()
        used = sum(tree_cpu().values()) - before - idle * (time.monotonic() - began)
        command.terminate()
        command.wait(60)
    return restart, 1000 * used / MEASURED


def _committed(folder: Path) -> int:
    """The number of the last micro-batch that Spark has committed."""
    names = (path.name for path in folder.glob("state/queries/*/checkpoint/commits/*"))
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _line(second: int, key: int) -> str:
    at = f"2026-11-20T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
    return f'{{"time":"{at}","ip":"10.{key >> 16}.{key >> 8 & 255}.{key & 255}","bytes":{key % 5000}}}\n'
