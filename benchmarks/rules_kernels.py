"""The steps of the benchmark of rules, each a process: raw lines in memory → the file source → json → rules → JSON lines."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import fleet
from benchmarks.folders import acceptance
from connectors.file.source import FileSource
from connectors.shared.json_lines import encode
from etl.api import ArrowStep, Limit, visible
from etl.columns.texts import materialize
from etl.rules.compiled_rules import required_fields
from etl.rules.conditions.tree import Leaf, replace_leaves
from etl.rules.engine.batch_engine import Engine, Switches
from etl.rules.files import find_rule_files
from etl.rules.predicates.text import Text
from etl.rules.reader import read_rules
from etl.rules.rule import Rule
from etl.steps.detection.rules import Rules
from parsers.json.parser import Json

EVENTS, LOG_LINES, TIMES, FEW, MANY = 50_400, 1_000_000, 5, 41, 3_000
LONG, LONG_EVENTS = 5, 10
"""How often the log lines, and the events, are repeated for a whole run."""
PAIR_ROUNDS = 10
FOLDERS = ("rules", "rules-emerging-threats")

Run = Callable[[], int]
"""Everything once; the number of events."""


def data(folder: Path) -> None:
    """The events of process creation repeated, the same with texts that do not repeat, log lines of 100 bytes, a pipeline."""
    with gzip.open(acceptance() / "sigma" / "process_creation_events.jsonl.gz") as file:
        once = file.read().rstrip(b"\n") + b"\n"
    times = EVENTS // once.count(b"\n")
    (folder / "events.jsonl").write_bytes(once * times)
    with (folder / "fresh.jsonl").open("wb") as fresh:
        fresh.writelines(fleet.lines([json.loads(line) for line in once.splitlines()], times, hits()))
    (folder / "app.log").write_bytes(b"".join(map(log_line, range(LOG_LINES // 10))) * 10)
    (folder / "long.log").write_bytes((folder / "app.log").read_bytes() * LONG)
    (folder / "long.jsonl").write_bytes((folder / "events.jsonl").read_bytes() * LONG_EVENTS)
    _pipeline(folder, "lines", "long.log", [own(FEW)])
    _pipeline(folder, "events", "long.jsonl", [parse(), step()])


def _pipeline(folder: Path, name: str, source: str, steps: Sequence[ArrowStep]) -> None:
    """A file of JSON, which is YAML."""
    written = [{"type": one.type, **one.model_dump(mode="json", exclude_defaults=True, by_alias=True)} for one in steps]
    source_and_sink = {
        "source": {"type": "file", "path": str(folder / source)},
        "sink": {"type": "file", "path": str(folder / f"{name}-matched.json")},
    }
    (folder / f"{name}.yaml").write_text(json.dumps({"name": f"rules-{name}", **source_and_sink, "steps": written}))


def log_line(number: int) -> bytes:
    """100 bytes with the newline; one line in 100 is what a rule looks for."""
    chance = random.Random(number)
    usual = ("GET /index.html 200", "cache hit for key", "user session renewed", "connection closed by peer")
    what = f"alert-{number // 100 % FEW:02} code={number % 9973} from 10.0.0.7" if number % 100 == 0 else chance.choice(usual)
    begin = f"2026-11-21T{number % 24:02}:{number % 60:02}:00 host-{chance.randrange(99)} app[{number}]"
    line = f"{begin}: {what} {chance.getrandbits(256):x}"
    return line.encode()[:99] + b"\n"


def own(count: int) -> Rules:
    """Rules of a regular expression each."""
    patterns = [rf"alert-{n:02}\s+code=\d+ from (\d{{1,3}}[.]){{3}}\d+" for n in range(count)]
    written = [pattern.replace("\\", "\\\\") for pattern in patterns]
    return Rules.model_validate(
        {"rules": [{"name": f"r{n}", "where": f"message rlike '{one}'"} for n, one in enumerate(written)]}
    )


@cache
def sigma() -> tuple[Rule, ...]:
    """The rules of the acceptance data."""
    return read_rules(find_rule_files([str(acceptance() / "sigma" / name) for name in FOLDERS])).rules


def parse() -> Json:
    """The fields that the rules need, and no others."""
    return Json.model_validate({"fields": dict.fromkeys(_fields(), "string")})


def _fields() -> list[str]:
    return sorted(name for name in required_fields(sigma()) if name.isalnum())


def step() -> Rules:
    """All rules of the acceptance data."""
    return Rules.model_validate({"files": [str(acceptance() / "sigma" / name / "**/*.yml") for name in FOLDERS]})


def hits() -> Callable[[Sequence[fleet.Event]], fleet.Hits]:
    """Which rules events meet, each of them looked at anew."""
    names = _fields()
    schema = pa.schema([(name, pa.string()) for name in names])
    engine = Engine([rule.condition for rule in sigma()], schema, Switches(distinct=False))

    def meets(events: Sequence[fleet.Event]) -> fleet.Hits:
        rows = [{name: _text(event.get(name)) for name in names} for event in events]
        found = engine.run(pa.RecordBatch.from_pylist(rows, schema))
        return [found.rule[first:stop].tolist() for first, stop in pairwise(found.offsets)]

    return meets


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def many() -> list[Rule]:
    """The rules and variants of them that look for other texts, 3,000 in all."""
    return [*sigma(), *(variant(rule, turn) for turn in range(1, 3) for rule in sigma())][:MANY]


def variant(rule: Rule, turn: int) -> Rule:
    def other(leaf: Leaf) -> Leaf:
        one = leaf.predicate
        return (
            Leaf(replace(one, text=f"{one.text[:-2]}{turn}{one.text[-2:]}"))
            if isinstance(one, Text) and len(one.text) > 3
            else leaf
        )

    return replace(rule, id=f"{rule.id}-{turn}", condition=replace_leaves(rule.condition, other))


def through(file: Path, steps: Sequence[ArrowStep]) -> Run:
    """A file through steps and into JSON lines, as a task does it."""
    source = FileSource.model_validate({"path": str(file)})
    start = source.start()
    splits = source.splits(start, source.latest(start, Limit(1 << 40, bounded=True)), 1)
    schema, works = source.fields(), []
    for one in steps:
        works.append((one.open(schema), one.takes_views))
        schema = one.fields(schema)

    def run() -> int:
        events = 0
        for batch in (batch for split in splits for batch in source.read(split)):
            assert isinstance(batch, pa.RecordBatch)
            events += batch.num_rows
            for work, takes_views in works:
                batch = work(batch if takes_views else materialize(batch)).events
            encode(materialize(batch.select(visible(batch.schema).names)))
        return events

    return run


def speed(run: Run, times: int = TIMES) -> float:
    """Events a CPU second of this process: the best of some runs after a first one."""
    run()
    found = []
    for _ in range(times):
        began = time.process_time()
        events = run()
        found.append(events / (time.process_time() - began))
    return max(found)


def parse_events(file: Path) -> list[pa.RecordBatch]:
    """The batches that reach the rules."""
    found: list[pa.RecordBatch] = []
    source = FileSource.model_validate({"path": str(file)})
    start = source.start()
    work = parse().open(source.fields())
    for split in source.splits(start, source.latest(start, Limit(1 << 40, bounded=True)), 1):
        found += [work(materialize(batch)).events for batch in source.read(split) if isinstance(batch, pa.RecordBatch)]
    return found


def alone(rules: Sequence[Rule], batches: Sequence[pa.RecordBatch], switches: Switches, times: int = TIMES) -> float:
    """Events a CPU second, of the rules alone."""
    engine = Engine([rule.condition for rule in rules], visible(batches[0].schema), switches)
    return speed(lambda: sum(engine.run(batch).offsets.shape[0] - 1 for batch in batches), times)


def raw(folder: Path) -> dict[str, float]:
    """R1: what one process does with lines that repeat and with those that do not, and with parsing alone; by turns."""
    runs = {
        "raw": through(folder / "events.jsonl", [parse(), step()]),
        "json": through(folder / "events.jsonl", [parse()]),
        "fresh": through(folder / "fresh.jsonl", [parse(), step()]),
        "fresh_json": through(folder / "fresh.jsonl", [parse()]),
    }
    for run in runs.values():
        run()
    turns = [{name: speed(run, 1) for name, run in runs.items()} for _ in range(TIMES)]
    found = {name: max(turn[name] for turn in turns) for name in runs}
    return found | {"fresh_part": found["fresh"] / found["fresh_json"]}


def pair(folder: Path) -> dict[str, float]:
    """R1: events a second of two processes at once, which begin together."""
    argv = [sys.executable, "-m", "benchmarks.rules_kernels", "half", str(folder)]
    halves = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pipes = [(half.stdin, half.stdout) for half in halves]
    for _, out in pipes:
        assert out is not None
        assert out.readline() == "ready\n"
    began = time.monotonic()
    for go, _ in pipes:
        assert go is not None
        go.close()
    events = sum(int(json.loads(out.readline())["events"]) for _, out in pipes if out is not None)
    seconds = time.monotonic() - began
    for half in halves:
        half.wait()
    return {"pair": events / seconds}


def half(folder: Path) -> dict[str, float]:
    """One of the two: ready, and once its input ends, to work."""
    run = through(folder / "events.jsonl", [parse(), step()])
    run()
    print("ready", flush=True)
    sys.stdin.read()
    return {"events": sum(run() for _ in range(PAIR_ROUNDS))}


def growth(folder: Path) -> dict[str, float]:
    """R2: parsing and rules, by how many rules there are."""
    batches = parse_events(folder / "events.jsonl")
    json_only = 1 / speed(through(folder / "events.jsonl", [parse()]))
    chosen = sigma()[:: len(sigma()) // FEW][:FEW]
    found = {
        "few": alone(chosen, batches, Switches()),
        "all": alone(sigma(), batches, Switches()),
        "many": alone(many(), batches, Switches()),
    }
    ratio = (json_only + 1 / found["many"]) / (json_only + 1 / found["few"])
    return {**found, "ratio": ratio}


def lines(folder: Path) -> dict[str, float]:
    """R3: 41 regular expressions over log lines."""
    return {"lines": speed(through(folder / "app.log", [own(FEW)]))}


def ablation(folder: Path) -> dict[str, float]:
    """R4: each optimisation switched off alone, and the memory of texts beside the others."""
    batches = parse_events(folder / "events.jsonl")[:2]
    off = {"nothing": Switches(), **{name: replace(Switches(), **{name: False}) for name in Switches.__dataclass_fields__}}
    found = {name: alone(sigma(), batches, switches, 2 * TIMES) for name, switches in off.items()}
    fresh = {name: replace(switches, distinct=False) for name, switches in off.items() if name != "distinct"}
    return found | {f"{name}, nothing remembered": alone(sigma(), batches, switches, 2) for name, switches in fresh.items()}


STEPS: Mapping[str, Callable[[Path], Any]] = {
    "data": data, "raw": raw, "pair": pair, "half": half, "growth": growth, "lines": lines, "ablation": ablation,
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](Path(sys.argv[2]))))
