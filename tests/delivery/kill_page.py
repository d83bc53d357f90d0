"""The page that says what long trials found: a row for each pair, replaced when its pair is tried again."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from kill_pairs import Pair, every_pair
from killing import EVENTS, Outcome, Trial

from etl.api import Guarantee

STRUCK = "killed: driver, worker, server"
HEAD = ("source", "sink", "claim", "runs", STRUCK, "sinks", "events", "missing", "repeats", "seconds", "when")
TEXT = """\
# Delivery, tried

Written by `make kills`, which replaces the rows of the pairs that it tries. In each run {events:,} events go through a
pipeline from the source to the sink. At a random moment, after a micro-batch has begun, the driver or a Python worker is
killed with `kill -9`, or a server that the pair uses is stopped or killed and started again, while the run has to live
through it. The next run goes on with the state that it finds. A last run reads what is left; then all events at the other end
are counted, one by one. *Sinks* are those that the pipeline had: where they are several, each is a pair with the source and
has the events of its own counted; a server's strike is told with the pairs that use it, the others live through it as well.

*Missing* are events that did not come out, *repeats* those that came out again. A row whose claim is *exactly once* has none
of either; *at least once* has none that are missing. `upsert` and the ids of documents hide repeats by their nature: there,
*unseen* stands for what cannot be counted. A source that is *whole* is read once, each run from a place of its own and then to
its end; a point in time of Elasticsearch is lost with its node, which is not struck there. A strike that came after a run's
end, or found no worker, is not counted. How it is done: `tests/delivery/killing.py`.

On {machine}.

"""


def row_of(pair: Pair, claim: Guarantee, trial: Trial, found: Outcome, seconds: float) -> Sequence[str]:
    """What a trial of one pair found."""
    restarts = sum(trial.restarts[name] for name in pair.servers)
    kills = f"{trial.kills['driver']}, {trial.kills['worker']}, {restarts}"
    repeats = f"{found.repeats:,}" if pair.sink.shows_repeats or found.repeats else "unseen"
    sinks = str(len(trial.lane.pairs))
    numbers = [str(trial.runs), kills, sinks, f"{found.total:,}", f"{len(found.missing):,}", repeats, f"{seconds:.0f}"]
    return [pair.source.name, pair.sink.name, claim, *numbers, f"{datetime.now(UTC):%Y-%m-%d %H:%M}"]


def write(page: Path, row: Sequence[str]) -> None:
    """Put a row in; trials may run beside each other."""
    with page.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        rows = {**_rows(file.read()), (row[0], row[1]): row}
        file.truncate(0)
        file.write(_page(rows))


def _rows(text: str) -> dict[tuple[str, str], Sequence[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {(row[0], row[1]): row for row in cells if row[0] not in (HEAD[0], "---")}


def _page(rows: Mapping[tuple[str, str], Sequence[str]]) -> str:
    order = [(pair.source.name, pair.sink.name) for pair in every_pair()]
    known = [rows[key] for key in sorted(order) if key in rows]
    machine = f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.release()}"
    lines = [HEAD, ["---"] * 3 + ["---:"] * (len(HEAD) - 3), *known]
    return TEXT.format(events=EVENTS, machine=machine) + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _processor() -> str:
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
