"""Killing runs at random points, and counting what came out at the other end.

With ``SLUICE_KILLS=10`` there are ten runs of 200,000 events each; without it a small one. ``SLUICE_SEED`` repeats the
victims and moments of an earlier trial.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kill_lanes import Lane
from kill_processes import workers
from running import Engine, wait_for
from servers.server import Server

from etl.api import Guarantee

RUNS = int(os.environ.get("SLUICE_KILLS", "0"))
EVENTS = 200_000
FEW_RUNS, FEW_EVENTS = 1, 10_000
SLICES = 20
"""In so many pieces the events of a run are put in, with pauses of random length."""
PAUSE_SECONDS = 0.15
STRIKE_SECONDS = 0.8
"""A strike comes in this time after a micro-batch has begun that has new events."""
STOP_SECONDS = 180.0

Victim = Literal["driver", "worker", "server"]


@dataclass
class Outcome:
    """What a trial found: ``missing`` events, ``repeats`` beyond the first of each, ``foreign`` ones that nobody put in."""

    total: int
    missing: list[int]
    repeats: int
    foreign: list[int]
    done: list[str] = field(default_factory=list)
    """What was done to which run."""

    @property
    def exact(self) -> bool:
        """Whether every event is there once."""
        return not (self.missing or self.repeats or self.foreign)

    def keeps(self, claim: Guarantee) -> bool:
        """Whether it is what was promised."""
        return self.exact if claim == "exactly once" else not (self.missing or self.foreign)

    def __str__(self) -> str:
        return (
            f"of {self.total} events {len(self.missing)} are missing {self.missing[:5]}, {self.repeats} came again, "
            f"{len(self.foreign)} are foreign {self.foreign[:5]}; {'; '.join(self.done)}"
        )


def outcome(total: int, delivered: Iterable[int], done: Sequence[str] = ()) -> Outcome:
    """Compare what came out with the numbers from 0 to ``total``."""
    counts = Counter(delivered)
    missing = [number for number in range(total) if number not in counts]
    foreign = [number for number in counts if not 0 <= number < total]
    return Outcome(total, missing, sum(counts.values()) - len(counts), foreign, list(done))


@dataclass
class Trial:
    """One pipeline, killed again and again.

    ``restartable`` are servers that may be stopped or killed, each as often as the others; the run has to live through it.
    """

    engine: Engine
    lane: Lane
    restartable: Mapping[str, Server] = field(default_factory=dict)
    seed: int = 0
    runs: int = field(init=False)
    events: int = EVENTS if RUNS else FEW_EVENTS
    done: list[str] = field(default_factory=list)
    kills: Counter[Victim] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    """Strikes of each server."""
    total: int = 0

    def __post_init__(self) -> None:
        self.seed = self.seed or int(os.environ.get("SLUICE_SEED", "0")) or random.randrange(1, 1 << 32)
        self.dice = random.Random(self.seed)
        self.whole = self.lane.source.whole
        self.runs = RUNS or FEW_RUNS
        self.done.append(f"SLUICE_SEED={self.seed}")

    def __call__(self) -> list[Outcome]:
        """All runs, then one to the end; what came out of each sink."""
        for number, victim in enumerate(self._victims()):
            if self.whole or number == 0:
                self._begin(number)
            if self.whole:
                self._put(self.events)
            with self._running(number, *(["--once"] if self.whole else [])) as run:
                self._wait_until_running(number, run)
                self._struck(number, run, victim)
            if self.whole:
                self._finish()
        if not self.whole:
            self._finish()
        return [outcome(self.total, catch.delivered(), self.done) for catch in self.lane.catches]

    def _victims(self) -> list[Victim]:
        """Of each as many as of the others, as far as the runs go."""
        kinds: list[Victim] = ["server", "worker", "driver"] if self.restartable else ["worker", "driver"]
        self.dice.shuffle(kinds)
        return [kinds[number % len(kinds)] for number in range(self.runs)]

    def _begin(self, number: int) -> None:
        """A place for events, and a pipeline that reads it, with a state of its own."""
        self.state = self.lane.stage.state = self.engine.etl.folder / f"state-{number}"
        self.lane.feed.begin()
        self.pipeline = self.engine.etl.pipeline(self.lane.pipeline(f"kills-{number}"))

    def _struck(self, number: int, run: subprocess.Popen[bytes], victim: Victim) -> None:
        """Put events in, in slices; at one of them strike; whoever lives through it is ended gently, else begun anew."""
        at = SLICES - 1 if self.lane.source.receives else self.dice.randrange(SLICES)  # no event when nobody receives it
        for piece in range(1 if self.whole else SLICES):
            if not self.whole:
                begun = self._begun()
                self._put(self.events // SLICES)
                time.sleep(self.dice.uniform(0, PAUSE_SECONDS))  # a random point is what is wanted
            if self.whole or piece == at:
                self._wait_for_work(() if self.whole else begun, run)
                time.sleep(self.dice.uniform(0, STRIKE_SECONDS))
                self.done.append(f"run {number}: {self._strike(run, victim)}" + ("" if self.whole else f" at slice {at}"))
        if run.poll() is None and not self.whole:
            run.send_signal(signal.SIGTERM)

    def _put(self, events: int) -> None:
        self.lane.feed.fill(self.total, self.total + events)
        self.total += events

    def _strike(self, run: subprocess.Popen[bytes], victim: Victim) -> str:
        if run.poll() is not None:
            return f"had ended ({run.returncode}) before its {victim} was struck"
        what = {"driver": self._kill_driver, "worker": self._kill_worker, "server": self._restart_server}[victim](run)
        if what:
            self.kills[victim] += 1
        return what or "no worker to kill"

    def _kill_driver(self, run: subprocess.Popen[bytes]) -> str:
        run.kill()
        run.wait()
        return "driver killed"

    def _kill_worker(self, run: subprocess.Popen[bytes]) -> str:
        found: list[int] = []
        wait_for(lambda: bool(found.extend(workers(run.pid)) or found) or run.poll() is not None, what="a worker")
        try:
            os.kill(self.dice.choice(found), signal.SIGKILL)
        except (ProcessLookupError, IndexError):
            return ""
        return "worker killed"

    def _restart_server(self, run: subprocess.Popen[bytes]) -> str:
        fewest = min(self.restarts[name] for name in self.restartable)
        name = self.dice.choice([name for name in self.restartable if self.restarts[name] == fewest])
        server, gently = self.restartable[name], self.dice.random() < 0.5
        (server.stop if gently else server.kill)()
        server.start()
        self.restarts[name] += 1
        return f"{name} {'restarted' if gently else 'killed and started'}"

    def _begun(self) -> tuple[tuple[str, int], ...]:
        """The queries, and how many micro-batches each has begun."""
        folders = sorted(self.state.glob("queries/*/checkpoint/offsets"))
        return tuple((str(folder), last) for folder in folders if (last := _last_number(folder)) >= 0)

    def _wait_for_work(self, before: Iterable[tuple[str, int]], run: subprocess.Popen[bytes]) -> None:
        """Until a micro-batch begins that may hold the newest events."""
        known = set(before)
        wait_for(lambda: run.poll() is not None or bool(set(self._begun()) - known), what="a micro-batch")

    def _finish(self) -> None:
        """What a killed run left is done by one in this process."""
        ran = self.engine.run(self.pipeline, "--once", "--state", self.state)
        assert ran.status == 0, f"{self.done}\n{ran.err[-4000:]}"

    @contextmanager
    def _running(self, number: int, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        words = ("run", str(self.pipeline), "--master", "local[2]", "--state", str(self.state), *more)
        with self._log(number).open("wb") as log:
            command, folder = [sys.executable, "-m", "etl", *words], self.engine.etl.folder
            run = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield run
            run.wait(STOP_SECONDS)
        finally:
            if run.poll() is None:
                run.kill()
                run.wait()

    def _wait_until_running(self, number: int, run: subprocess.Popen[bytes]) -> None:
        log = self._log(number)
        wait_for(lambda: b"\nrunning " in log.read_bytes() or run.poll() is not None, what="the start of the run")
        assert run.poll() is None, log.read_text()[-4000:]

    def _log(self, number: int) -> Path:
        return self.engine.etl.folder / f"killed-{number}.log"


def _last_number(folder: Path) -> int:
    """Of the files that are named by numbers."""
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=-1)
