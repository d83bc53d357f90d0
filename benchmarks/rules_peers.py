"""Peers of the benchmark of rules: other engines of Sigma rules, with the same rules over the same lines."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from shutil import copytree

from benchmarks import measure
from benchmarks.contenders import CRATES, OTHERS, prepare_peers, program
from benchmarks.folders import HERE, acceptance
from benchmarks.results import Row
from benchmarks.rules_kernels import EVENTS, FOLDERS, parse_events, step

ONCE = 1_260
"""Events of the acceptance data; peers run over these, once or several times."""
OUTPUT = "matches"
WHICH = {"events": "", "fresh": " that do not repeat"}
"""What each file of lines is called in a row."""
ONE_CORE = ("taskset", "--cpu-list", "0")


@dataclass(frozen=True)
class Peer:
    """``argv(rules, events, output)`` is its command; ``rule`` finds a rule's id in a line of output."""

    name: str
    events: int
    argv: Callable[[Path, Path, Path], list[str]]
    rule: Callable[[str], str]
    files: Sequence[str] = ("events",)
    prepare: Callable[[], object] = prepare_peers


def _rsigma(rules: Path, events: Path, out: Path) -> list[str]:
    command = '"$0" engine eval --rules "$1" --event "@$2" --input-format json > "$3" 2> "$3.said"'
    return ["sh", "-c", command, str(program("rsigma")), str(rules), str(events), str(out)]


def _tenzir(rules: Path, events: Path, out: Path) -> list[str]:
    steps = [
        f'from_file "{events}" {{ read_ndjson }}',
        f'sigma path="{rules}", refresh_interval=1h',
        f'to_file "{out}" {{ write_ndjson }}',
    ]
    return [str(OTHERS.with_name("tenzir")), "\n".join(steps)]


def _sqlite(rules: Path, events: Path, out: Path) -> list[str]:
    return [str(OTHERS), str(HERE / "peers" / "sigma_sqlite.py"), str(rules), str(events), str(out)]


PEERS = (
    Peer(
        f"rsigma {CRATES['rsigma']}",
        EVENTS,
        _rsigma,
        lambda line: json.loads(line)["rule_id"],
        ("events", "fresh"),
        lambda: program("rsigma"),
    ),
    Peer("Tenzir", ONCE, _tenzir, lambda line: json.loads(line)["policy"]["uid"]),
    Peer("pySigma and SQLite", 2 * ONCE, _sqlite, str.strip),
)


def rows(folder: Path, times: int) -> Iterator[Row]:
    """A row of each peer and file of lines; one that cannot be installed has no values and says why."""
    rules = folder / "rules"
    for name in FOLDERS:
        copytree(acceptance() / "sigma" / name, rules / name)
    for peer in PEERS:
        try:
            peer.prepare()
        except (OSError, subprocess.CalledProcessError) as error:
            yield Row(f"R1: {peer.name}", "events/CPU s", remark=f"not in this run, it could not be installed: {error}")
            continue
        begin = _run(peer, rules, _first(folder / "events.jsonl", 1)).cpu
        for name in peer.files:
            yield _measured(peer, rules, _first(folder / f"{name}.jsonl", peer.events), WHICH[name], times, begin)


def _run(peer: Peer, rules: Path, events: Path) -> measure.Cost:
    out = events.with_name(OUTPUT)
    out.unlink(missing_ok=True)
    cost, _, _ = measure.run([*ONE_CORE, *peer.argv(rules, events, out)], events.parent)
    return cost


def _measured(peer: Peer, rules: Path, events: Path, which: str, times: int, begin: float) -> Row:
    """``begin`` are the CPU seconds of a run over almost nothing."""
    row = Row(f"R1: {peer.name}, {peer.events:,} events{which}", "events/CPU s")
    for _ in range(times):
        cost = _run(peer, rules, events)
        row.values.append((peer.events - 1) / (cost.cpu - begin))
        row.cpu.append(cost.cpu)
        row.wall.append(cost.wall)
        row.pss.append(cost.peak)
        row.work_cpu.append(cost.cpu - begin)
    out = events.with_name(OUTPUT)
    row.remark = compared(Counter(map(peer.rule, out.read_text().splitlines())), _ours(events))
    return row


def _first(file: Path, events: int) -> Path:
    """So many lines of a file, as a file."""
    part = file.with_name(f"{file.stem}-{events}.jsonl")
    with file.open("rb") as lines, part.open("wb") as out:
        out.writelines(islice(lines, events))
    return part


def _ours(file: Path) -> Counter[str]:
    """What we match, rule by rule."""
    batches = parse_events(file)
    work = step().open(batches[0].schema)
    rule_lists = [rules for batch in batches for rules in work(batch).events.column("rules").to_pylist()]
    return Counter(rule["id"] for rules in rule_lists for rule in rules)


def compared(theirs: Counter[str], ours: Counter[str]) -> str:
    """Their matches beside ours, in words."""
    if theirs == ours:
        return f"{theirs.total():,} matches of {len(theirs)} rules, the same as ours"
    others = sorted(rule for rule in theirs | ours if theirs[rule] != ours[rule])
    named = ", ".join(f"{rule} ({theirs[rule]:,}, ours {ours[rule]:,})" for rule in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return f"{theirs.total():,} matches, ours {ours.total():,}; other numbers for {named}{more}"
