"""The page with the results of kill tests: a row for each pair, and for each step with state on a route, replaced when it is
tested again."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from kill_pairs import Pair, every_pair
from kill_trial import EVENTS, Outcome, Trial
from state_case_groups import CASES
from state_cases import ROUTES

from etl.api import Guarantee

KILLED = "killed: driver, worker, server"
HEAD = ("source", "sink", "claim", "runs", KILLED, "sinks", "events", "missing", "repeats", "seconds", "when")
TEXT = """\
# Delivery tests

Written by `make kills`, which replaces the rows of the pairs that it tests. In each run {events:,} events go through a
pipeline from the source to the sink. At a random moment after a micro-batch has begun, the test kills the driver or a Python
worker with `kill -9`, or it stops or kills a server of the pair and starts it again while the run continues. The next run
starts with the same state folder. A last run reads the remaining input; then the test counts every event in the sink. *Sinks*
is the number of sinks of the tested pipeline: each of them is a pair with the source, and its events are counted separately. A
restart of a server is counted for the pairs that use it.

*Missing* are events that the sink does not have, *repeats* those that it has more than once. A row with *exactly once* has
neither; a row with *at least once* has no missing events. `upsert` and documents with ids overwrite repeats, which cannot be
counted then: *hidden*. A source with *whole* in its name is read once: each run gets new input and a new state folder, and a
second run reads that input to its end. The Elasticsearch node of such a source is not restarted, because a point in time is
lost with its node. A kill is not counted if the run had ended before, or had no worker. How the test works:
`tests/delivery/kills/kill_trial.py`.

The rows that were measured last are from {machine}; earlier ones may be from another machine of two cores.

"""
STATE_KILLED = "killed: driver, workers, JVM"
STATE_HEAD = ("step", "route", "runs", STATE_KILLED, "events", "results", "missing", "repeats", "unexpected", "when")
STATE_TEXT = """
## Steps with state

Written by `make kills-state`. A row is a step, or several in a row, as `tests/delivery/kills/state_case_groups.py` lists them,
on one of four routes to its state: *one task* reads a micro-batch and runs the step itself; *several tasks* read it and write
rows to files, and others run the step; *after Spark*, Spark computes a step before it; *read by Spark*, the events come from a
source that Spark reads. Queries of several steps run in one pipeline. Each run is killed once at a random moment with
`kill -9`: the driver, all Python workers, or the JVM. A last run reads the rest, and all results are compared with what plain
Python computes of the same events: rows that are *missing*, rows that are there once more, and rows that must not be. Dead
letters are rows of the steps that fail for some events. Of steps with *idle* or *quiet* the stream stops again and again, and
results come by the clock.

A step `dedupe` by the time of reading has no row *read by Spark*: each key has one result there, too, but which of its events is
the first depends on the order in which Spark reads the files of a micro-batch (in ten runs all of 25 keys had another one).

"""
RECEIVER_HEAD = ("receiver", "protocol", "killed", "events acknowledged", "missing", "stored twice", "when")
RECEIVERS = (
    *(("http", form) for form in ("ndjson", "elasticsearch", "splunk_hec", "loki", "opentelemetry")),
    ("forward", "acks"),
    ("beats", "Lumberjack"),
    *(("mqtt", f"{version}, QoS {qos}") for version in ("5", "3.1.1") for qos in (2, 1)),
)
RECEIVER_TEXT = """
## Receivers

Written by `make kills-receivers`. Three senders send requests of 20 events without a pause (`mqtt`: one publishes batches of
50 to a broker) and count what is acknowledged, while the receiver is killed with `kill -9` and started again on the same
folder. Then the journal is read. A request whose acknowledgement was lost is sent no more, so that an event which is stored
twice would be a defect of the receiver; with QoS 1 the broker sends such messages again. The receivers of `syslog`, which
acknowledges nothing, and the sources `redis` and `journald`, which read and do not receive, are killed in the first table.

"""
SERVER_TEXT = """
## A server with many pipelines

`make chaos` is run by hand: `etl serve` with 20 pipelines, eight from files, six from topics of a real Kafka broker, three that
publish streams and three that subscribe, each input with 50 events a second, for ten minutes. All the time pipelines are removed,
deployed and changed at random, and the server is killed with `kill -9` 60 s after it was ready (`tests/server/chaos.py`).

2026-11-29, on two cores that other programs used as well (load 8 to 25): 7 kills of a server that was at work, 79 deployments,
46 removals, 516,800 events in 17 outputs: 0 missing, 0 repeated.

2026-11-30, at the lowest priority beside other programs (load 8 to 17), where a server took minutes to be ready: 2 kills, 104
deployments, 57 removals, 553,010 events in 17 outputs: 0 repeated, and 101,420 not delivered within ten minutes after the last
kill, because queries were still starting. A further start without Kafka delivered all those of files and streams (99,300); of the
topics 2,120 were not read, the last ones of each, as the broker was gone.
"""


def row_of(pair: Pair, claim: Guarantee, trial: Trial, found: Outcome, seconds: float) -> Sequence[str]:
    """Return the row for a trial of one pair."""
    restarts = sum(trial.restarts[name] for name in pair.servers)
    kills = f"{trial.kills['driver']}, {trial.kills['worker']}, {restarts}"
    repeats = f"{found.repeats:,}" if pair.sink.shows_repeats or found.repeats else "hidden"
    sinks = str(len(trial.setup.pairs))
    numbers = [str(trial.runs), kills, sinks, f"{found.total:,}", f"{len(found.missing):,}", repeats, f"{seconds:.0f}"]
    return [pair.source.name, pair.sink.name, claim, *numbers, f"{datetime.now(UTC):%Y-%m-%d %H:%M}"]


def state_row_of(name: str, route: str, trial: Trial, found: Outcome) -> Sequence[str]:
    """Return the row for a trial of a step with state."""
    kills = f"{trial.kills['driver']}, {trial.kills['worker']}, {trial.kills['jvm']}"
    numbers = (trial.total, found.total, len(found.missing), found.repeats, len(found.unexpected))
    return [name, route, str(trial.runs), kills, *(f"{number:,}" for number in numbers), f"{datetime.now(UTC):%Y-%m-%d %H:%M}"]


def receiver_row_of(name: tuple[str, str], kills: int, acknowledged: int, missing: int, repeats: int) -> Sequence[str]:
    """Return the row for a receiver that was killed while senders counted acknowledgements."""
    counts = (f"{number:,}" for number in (kills, acknowledged, missing, repeats))
    return [*name, *counts, f"{datetime.now(UTC):%Y-%m-%d %H:%M}"]


def write(page: Path, *rows: Sequence[str]) -> None:
    """Add or replace rows; several trials may write at the same time."""
    with page.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = {**_rows(file.read()), **{(row[0], row[1]): row for row in rows}}
        file.truncate(0)
        file.write(_page(known))


def _rows(text: str) -> dict[tuple[str, str], Sequence[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {(row[0], row[1]): row for row in cells if row[0] not in (HEAD[0], STATE_HEAD[0], RECEIVER_HEAD[0], "---")}


def _page(rows: Mapping[tuple[str, str], Sequence[str]]) -> str:
    order = [(pair.source.name, pair.sink.name) for pair in every_pair()]
    known = [rows[key] for key in sorted(order) if key in rows]
    state = [rows[name, route] for name in CASES for route in ROUTES if (name, route) in rows]
    machine = f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.release()}"
    pairs = _table([HEAD, ["---"] * 3 + ["---:"] * (len(HEAD) - 3), *known])
    states = _table([STATE_HEAD, ["---"] * 2 + ["---:"] * (len(STATE_HEAD) - 2), *state])
    received = [rows[key] for key in RECEIVERS if key in rows]
    receivers = _table([RECEIVER_HEAD, ["---"] * 2 + ["---:"] * (len(RECEIVER_HEAD) - 2), *received])
    whole = TEXT.format(events=EVENTS, machine=machine) + pairs + STATE_TEXT + states
    return whole + (RECEIVER_TEXT + receivers if received else "") + SERVER_TEXT


def _table(lines: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _processor() -> str:
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
