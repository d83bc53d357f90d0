"""Brute force: sign-ins of which one in five fails, correlated by address, state and all, as `etl run` does it."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure
from benchmarks.contenders import done
from benchmarks.places import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

EVENTS, FAILED, GROUPS, ATTACKERS = 1_000_000, 0.2, 5_000, 50
"""Events; the share of them that fails and goes into state; addresses that they are of; those of them that guess."""
GUESSES, USERS = 0.1, 300
"""The share of the failures that guessing makes; users."""
EVENTS_A_SECOND = 500
SPAN_SECONDS, THRESHOLD = 600, 20
CONDITIONS = {"event_count": f"{{gte: {THRESHOLD}}}", "value_count": f"{{field: user, gte: {THRESHOLD}}}"}
BATCHES = {2: "64MiB", 10: "9MB"}
"""In how many micro-batches all is read, and how large one may be."""

TITLE = "Correlation"
ABOUT = (
    f"{EVENTS:,} sign-ins of JSON lines, {EVENTS_A_SECOND} a second of event time, of which {FAILED:.0%} fail: these go into "
    f"state, by {GROUPS:,} addresses, of which {ATTACKERS} guess and make {GUESSES:.0%} of the failures. `file` → `json` → "
    f"`timestamp` → `correlate` with one rule, {THRESHOLD} failures (`event_count`) or users (`value_count`) of an address "
    f"within {SPAN_SECONDS // 60} minutes → JSON lines; two cores. *Into state* is failures by the CPU seconds of all processes, "
    "less those of the same run in which no event matches. The last rows are the most PSS of all processes with one core "
    "(`local[1]`). The alerts are compared with those of a plain loop over the events."
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
    rules: [{{name: failed, where: "outcome = '{outcome}'"}}]
    correlations:
      - title: Brute force
        correlation: {{type: {kind}, rules: [failed], group-by: [ip], timespan: {span}s, condition: {condition}}}
sink: {{type: file, path: "{folder}/alerts.json"}}
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
    _run(folder, _Asked("event_count", min(BATCHES), Counter()), "none")  # what is compiled once is nobody's cost
    rows = []
    for kind in CONDITIONS:
        expected = alerts(events, kind)
        for batches in BATCHES:
            what = f"{kind}, {batches} micro-batches"
            state, whole = Row(f"{what}: into state", "events/CPU s", at_least=300_000), Row(f"{what}: all", "events/s")
            for number in range(settings.runs):
                _measure(folder, _Asked(kind, batches, expected), state, whole)
                said = f"{state.values[-1]:,.0f} into state a CPU s, {whole.values[-1]:,.0f} in all a second"
                print(f"  run {number + 1}: {what}: {said}", file=sys.stderr, flush=True)
            rows += [state, whole]
        rows.append(_memory(folder, _Asked(kind, max(BATCHES), expected), settings.runs))
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
class _Asked:
    kind: str
    batches: int
    alerts: Counter[str]


def _measure(folder: Path, asked: _Asked, state: Row, whole: Row) -> None:
    idle, _ = _run(folder, asked, "none")
    cost, seconds = _run(folder, asked, "failure")
    found = Counter(json.loads(line)["ip"] for line in (folder / "alerts.json").read_text().splitlines())
    if found != asked.alerts:
        raise ValueError(f"{folder}: {found.total()} alerts, and {asked.alerts.total()} are right: {found - asked.alerts}")
    state.values.append(EVENTS * FAILED / (cost.cpu - idle.cpu))
    whole.values.append(EVENTS / seconds)
    for row in (state, whole):
        row.cpu.append(cost.cpu)
        row.pss.append(cost.peak)
        row.wall.append(cost.wall)


def _memory(folder: Path, asked: _Asked, runs: int) -> Row:
    """Of all processes, with one core."""
    row = Row(f"{asked.kind}, {asked.batches} micro-batches: memory on one core", "MB PSS", at_most=1_000)
    row.values += [_run(folder, asked, "failure", cores=1)[0].peak for _ in range(runs)]
    return row


def _run(folder: Path, asked: _Asked, outcome: str, cores: int = 2) -> tuple[measure.Cost, float]:
    """Events of that outcome count."""
    shutil.rmtree(folder / "state", ignore_errors=True)
    (folder / "alerts.json").unlink(missing_ok=True)
    options = {"kind": asked.kind, "condition": CONDITIONS[asked.kind], "span": SPAN_SECONDS, "size": BATCHES[asked.batches]}
    pipeline = folder / "correlation.yaml"
    pipeline.write_text(PIPELINE.format(folder=folder, outcome=outcome, **options))
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
