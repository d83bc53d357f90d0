"""Rules: a thousand Sigma rules over raw events, the cost of three times as many, regular expressions over log lines."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from benchmarks import measure, rules_kernels, rules_peers
from benchmarks.contenders import done
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from etl.spark.session import WORKER_ENVIRONMENT

TITLE = "Rules"
ABOUT = (
    "R1: the 1,042 Sigma rules of the acceptance data over its 1,260 events of process creation, repeated to 50,400 (3.0 kB of "
    "raw JSON each): file source, `json` with the fields that the rules need, `rules`, JSON lines of the matches, in a "
    "process with a worker's settings; alone, and two that begin together on two cores; and the events ten times over through "
    "`etl run`, its workers compiling the rules and all. Where nothing repeats (`benchmarks/fleet.py`), "
    "each event has command lines, folder, hashes, GUIDs, times, host and logon of its own, users and versions vary, and the "
    "hits are those of the event it is made of. Peers have the same rules and lines, every rule tried on every event, and "
    "are on one core; those that would take minutes have fewer lines. Their events a second are without start-up, which is "
    "taken off by a run over one event; wall clock, CPU and PSS are with it. Their matches are compared with ours, rule by "
    "rule. R2: parsing and rules with 3,000 rules (the same and variants that look for other texts), "
    "against 41 of them. R3: 41 rules of a regular expression each over log lines of 100 bytes, one in 100 a match: the steps "
    "alone, and `etl run` on one core, JVM and all. R4: the rules alone, with each optimisation switched off."
)
LONG_LINES = rules_kernels.LOG_LINES * rules_kernels.LONG


def run(settings: Settings) -> Result:
    """Each measured ``settings.runs`` times."""
    folder = fresh("rules")
    rows = {
        "raw": Row("R1: 1,042 Sigma rules, raw JSON in", "events/CPU s", at_least=75_000),
        "pair": Row("R1: two such processes on two cores", "events/s", at_least=150_000),
        "fresh": Row("R1: events that do not repeat", "events/CPU s"),
        "fresh_json": Row("R1: events that do not repeat, reading and parsing alone, all events written", "events/CPU s"),
        "fresh_part": Row("R1: events that do not repeat, rules and parsing / parsing alone", "times", at_least=0.54),
        "spark": Row("R1: `etl run` on two cores, 504,000 events", "events/s", at_least=150_000),
        "json": Row("R1: events that repeat, reading and parsing alone, all events written", "events/CPU s"),
        "memory": Row("R1: memory of a process", "MB PSS"),
        "few": Row("R2: 41 rules alone", "events/CPU s"),
        "all": Row("R2: 1,042 rules alone", "events/CPU s"),
        "many": Row("R2: 3,000 rules alone", "events/CPU s"),
        "ratio": Row("R2: time with 3,000 rules / with 41, parsing included", "times", at_most=1.5),
        "lines": Row("R3: 41 regular expressions, log lines of 100 bytes", "events/CPU s"),
        "run": Row("R3: `etl run` on one core", "events/s", at_least=500_000),
        "run_memory": Row("R3: memory of all its processes", "MB PSS", at_most=1_000),
    }
    _call("data", folder)
    for _ in range(settings.runs):
        cost, found = _call("raw", folder)
        on_two, _ = _whole(folder, "events", 2, every=60.0)  # reading memory maps takes a quarter of its speed
        on_one, peak = _whole(folder, "lines", 1)
        found |= {
            "memory": cost.peak,
            "spark": rules_kernels.EVENTS * rules_kernels.LONG_EVENTS / on_two,
            "run": LONG_LINES / on_one,
            "run_memory": peak,
        }
        for what in ("pair", "growth", "lines"):
            found |= _call(what, folder)[1]
        for name, row in rows.items():
            row.values.append(found[name])
    off = [Row(f"R4: without {name}", "events/CPU s", [value]) for name, value in _call("ablation", folder)[1].items()]
    first = [row for row in rows.values() if row.label.startswith("R1")]
    others = [row for row in rows.values() if row not in first]
    return Result("rules", TITLE, ABOUT, [*first, *rules_peers.rows(folder, settings.runs), *others, *off])


def _call(what: str, folder: Path) -> tuple[measure.Cost, dict[str, float]]:
    argv = [sys.executable, "-m", "benchmarks.rules_kernels", what]
    cost, out, _ = measure.run([*argv, str(folder)], folder, env=WORKER_ENVIRONMENT)
    return cost, json.loads(out.splitlines()[-1]) if out.strip() else {}


def _whole(folder: Path, pipeline: str, cores: int, every: float = 0.25) -> tuple[float, float]:
    """A pipeline as a user runs it: seconds at work, and the most memory of all processes, looked at every so many seconds."""
    shutil.rmtree(folder / "state", ignore_errors=True)
    (folder / f"{pipeline}-matched.json").unlink(missing_ok=True)  # else each run would grow what the one before left
    options = ["--once", "--master", f"local[{cores}]", "--state", str(folder / "state"), "--log-format", "json"]
    pinned = ["taskset", "--cpu-list", ",".join(map(str, range(cores)))]
    argv = [*pinned, sys.executable, "-m", "etl", "run", str(folder / f"{pipeline}.yaml"), *options]
    cost, out, err = measure.run(argv, folder, every=every)
    return done(out, err), cost.peak
