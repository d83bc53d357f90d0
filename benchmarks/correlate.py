"""Brute force: sign-ins of which one in five fails, correlated by address: the step alone, and all as `etl run` does it.

``python -m benchmarks.correlate KIND BATCHES FOLDER`` is the process of the step alone; it prints failures a CPU second.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks import measure
from benchmarks.contenders import done
from benchmarks.folders import fresh
from benchmarks.live_keys import StepRun
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from etl.contract.steps import ArrowStep
from etl.plan.frames import Read

EVENTS, FAILED, GROUPS, ATTACKERS = 1_000_000, 0.2, 5_000, 50
"""Events; the share of them that fails and goes into state; addresses that they are of; those of them that guess."""
GUESSES, USERS = 0.1, 300
"""The share of the failures that guessing makes; users."""
EVENTS_A_SECOND = 500
SPAN_SECONDS, THRESHOLD = 600, 20
CONDITIONS = {"event_count": f"{{gte: {THRESHOLD}}}", "value_count": f"{{field: user, gte: {THRESHOLD}}}"}
BEGIN = 1_795_154_400_000_000
"""The time of the first event, microseconds since the epoch."""
BATCHES = {2: "64MiB", 10: "9MB"}
"""In how many micro-batches all is read, and how large one may be."""

TITLE = "Correlation"
ABOUT = (
    f"{EVENTS:,} sign-ins of JSON lines, {EVENTS_A_SECOND} a second of event time, of which {FAILED:.0%} fail: these go into "
    f"state, by {GROUPS:,} addresses, of which {ATTACKERS} guess and make {GUESSES:.0%} of the failures. `file` → `json` → "
    f"`timestamp` → `correlate` with one rule, {THRESHOLD} failures (`event_count`) or users (`value_count`) of an address "
    f"within {SPAN_SECONDS // 60} minutes → JSON lines; two cores. *Into state* is failures a CPU second through `correlate` "
    "alone, in one process with one thread, without Spark and without parsing: rules, hashing, look-ups, alerts, state files "
    "with their merges, manifests. *Memory* is the most PSS of all processes with one core (`local[1]`). The alerts are compared "
    "with those of a plain loop over the events."
)

PIPELINE = """
name: correlation
source: {{type: file, path: "{folder}/events.jsonl"}}
steps:
  - type: json
    fields: {{time: string, outcome: string, ip: string, user: string}}
  - {{type: timestamp, field: time, formats: [iso8601]}}
  - type: correlate
    time: time
    rules: [{{name: failed, where: "outcome = 'failure'"}}]
    correlations:
      - title: Brute force
        correlation: {{type: {kind}, rules: [failed], group-by: [ip], timespan: {span}s, condition: {condition}}}
sink: {sink}
run: {{max_batch_bytes: {size}}}
"""


@dataclass(frozen=True)
class SignIn:
    """An event; ``millis`` since the first."""

    millis: int
    failed: bool
    ip: str
    user: str

    def line(self) -> str:
        """As JSON."""
        seconds, millis = divmod(self.millis, 1000)
        time = f"2026-11-20T{6 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{millis:03}Z"
        outcome = "failure" if self.failed else "success"
        return f'{{"time":"{time}","outcome":"{outcome}","ip":"{self.ip}","user":"{self.user}"}}\n'


def run(settings: Settings) -> Result:
    """Each measured ``settings.runs`` times."""
    folder = fresh("correlate")
    events = sign_ins()
    (folder / "events.jsonl").write_text("".join(event.line() for event in events))
    _run(folder, _Case("event_count", min(BATCHES), Counter()))  # what is compiled once is nobody's cost
    rows = []
    for kind in CONDITIONS:
        expected = alerts(events, kind)
        for batches in BATCHES:
            what = f"{kind}, {batches} micro-batches"
            state, whole = Row(f"{what}: into state", "events/CPU s", at_least=300_000), Row(f"{what}: all", "events/s")
            for number in range(settings.runs):
                _measure(folder, _Case(kind, batches, expected), state, whole)
                rates = f"{state.values[-1]:,.0f} into state a CPU s, {whole.values[-1]:,.0f} in all a second"
                print(f"  run {number + 1}: {what}: {rates}", file=sys.stderr, flush=True)
            rows += [state, whole]
        rows.append(_memory(folder, _Case(kind, max(BATCHES), expected), settings.runs))
    return Result("correlate", TITLE, ABOUT, rows)


def sign_ins() -> list[SignIn]:
    """The same ones each time."""
    dice = random.Random(7)
    found = []
    for number in range(EVENTS):
        failed = dice.random() < FAILED
        group = dice.randrange(ATTACKERS if failed and dice.random() < GUESSES else GROUPS)
        millis = number * 1000 // EVENTS_A_SECOND
        found.append(SignIn(millis, failed, f"10.0.{group // 256}.{group % 256}", f"user{dice.randrange(USERS)}"))
    return found


def alerts(events: list[SignIn], kind: str) -> Counter[str]:
    """How many each address has, by looking at one event after the other."""
    windows: dict[str, deque[SignIn]] = defaultdict(deque)
    held: dict[str, int] = {}
    found: Counter[str] = Counter()
    for event in events:
        if not event.failed:
            continue
        window = windows[event.ip]
        window.append(event)
        while window[0].millis <= event.millis - SPAN_SECONDS * 1000:
            window.popleft()
        if (len(window) if kind == "event_count" else len({one.user for one in window})) >= THRESHOLD:
            if event.millis - held.get(event.ip, -SPAN_SECONDS * 1000) >= SPAN_SECONDS * 1000:
                found[event.ip] += 1
            held[event.ip] = event.millis
    return found


@dataclass(frozen=True)
class _Case:
    kind: str
    batches: int
    alerts: Counter[str]


def _measure(folder: Path, case: _Case, state: Row, whole: Row) -> None:
    alone, out, _ = measure.run([sys.executable, "-m", "benchmarks.correlate", case.kind, str(case.batches), str(folder)], folder)
    state.values.append(float(out.splitlines()[-1]))
    cost, seconds = _run(folder, case)
    found = Counter(json.loads(line)["ip"] for line in (folder / "alerts.json").read_text().splitlines())
    if found != case.alerts:
        raise ValueError(f"{folder}: {found.total()} alerts, and {case.alerts.total()} are right: {found - case.alerts}")
    whole.values.append(EVENTS / seconds)
    for row, one in ((state, alone), (whole, cost)):
        row.cpu.append(one.cpu)
        row.pss.append(one.peak)
        row.wall.append(one.wall)


def _memory(folder: Path, case: _Case, runs: int) -> Row:
    """Of all processes, with one core."""
    row = Row(f"{case.kind}, {case.batches} micro-batches: memory on one core", "MB PSS", at_most=1_000)
    row.values += [_run(folder, case, cores=1)[0].peak for _ in range(runs)]
    return row


def _pipeline(folder: Path, kind: str, batches: int, sink: str) -> str:
    return PIPELINE.format(
        folder=folder, kind=kind, condition=CONDITIONS[kind], span=SPAN_SECONDS, size=BATCHES[batches], sink=sink
    )


def _run(folder: Path, case: _Case, cores: int = 2) -> tuple[measure.Cost, float]:
    shutil.rmtree(folder / "state", ignore_errors=True)
    (folder / "alerts.json").unlink(missing_ok=True)
    pipeline = folder / "correlation.yaml"
    sink = f'{{type: file, path: "{folder}/alerts.json"}}'
    pipeline.write_text(_pipeline(folder, case.kind, case.batches, sink))
    argv = [
        "run",
        str(pipeline),
        "--once",
        "--master",
        f"local[{cores}]",
        "--state",
        str(folder / "state"),
        "--log-format",
        "json",
    ]
    cost, out, err = measure.run([sys.executable, "-m", "etl", *argv], folder)
    return cost, done(out, err)


def main(kind: str, batches: int, folder: Path) -> None:
    """The process that measures the step alone. A small micro-batch of the day before comes first: it loads what is compiled."""
    own = folder / "alone"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    step = StepRun(_pipeline(folder, kind, batches, "{type: discard}"), own)
    assert isinstance(step.graph.child, Read)
    [root] = step.graph.child.segment.roots.values()
    counting = root.steps[-1]
    assert isinstance(counting.step, ArrowStep)
    find, stage = counting.step.open(counting.incoming), step.lane.stages[0]
    used = []
    for events in _failures(batches):
        began = time.process_time()
        found = find(events).events
        needed = [name for name in (*stage.incoming.names, "_offset") if name in found.schema.names]
        step.add(found.select(needed))
        used.append(time.process_time() - began)
    print(round(EVENTS * FAILED / sum(used[1:]), 1))


def _failures(batches: int) -> Iterator[pa.RecordBatch]:
    """The failures in so many micro-batches, after a small one."""
    failed = [one for one in sign_ins() if one.failed]
    size = -(-len(failed) // batches)
    number = 0
    for some in (failed[:1_000], *(failed[first : first + size] for first in range(0, len(failed), size))):
        day = BEGIN - (0 if number else 86_400_000_000)
        columns = {
            "time": pa.array([day + one.millis * 1000 for one in some], pa.timestamp("us", "UTC")),
            "outcome": pa.array(["failure"] * len(some)),
            "ip": pa.array([one.ip for one in some]),
            "user": pa.array([one.user for one in some]),
            "_offset": pa.array(range(number, number + len(some)), pa.int64()),
        }
        number += len(some)
        yield pa.RecordBatch.from_pydict(columns)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
