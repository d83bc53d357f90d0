"""Kills runs at random moments, and counts the events in the target systems.

With ``SLUICE_KILLS=10`` there are ten runs of 200,000 events each; without it one run of 10,000. ``SLUICE_SEED`` repeats the
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kill_processes import jvms, workers
from kill_setup import KillSetup
from running import Engine, wait_for
from servers.server import Server

from etl.api import Guarantee

RUNS = int(os.environ.get("SLUICE_KILLS", "0"))
EVENTS = 200_000
FEW_RUNS, FEW_EVENTS = 1, 10_000
SLICES = 20
"""Number of parts in which the events of a run are written to the source, with pauses of random length."""
PAUSE_SECONDS = 0.15
MAX_KILL_DELAY_SECONDS = 0.8
"""The victim is killed within this time, in seconds, after a micro-batch with new events has begun: for each two sources, whose
micro-batches run beside each other."""
STOP_SECONDS = 180.0

Victim = Literal["driver", "worker", "jvm", "server"]


@dataclass
class Outcome:
    """Result of a trial for one sink: ``missing`` events, ``repeats`` after the first of each, and ``unexpected`` events that
    were never written to the source.
    """

    total: int
    missing: list[int]
    repeats: int
    unexpected: list[int]
    log: list[str] = field(default_factory=list)
    """What was killed in which run."""

    @property
    def is_exact(self) -> bool:
        """Whether the target has every event exactly once."""
        return not (self.missing or self.repeats or self.unexpected)

    def fulfils(self, claim: Guarantee) -> bool:
        """Return whether the result agrees with the claimed guarantee."""
        return self.is_exact if claim == "exactly once" else not (self.missing or self.unexpected)

    def __str__(self) -> str:
        return (
            f"of {self.total} events {len(self.missing)} are missing {self.missing[:5]}, {self.repeats} are repeated, "
            f"{len(self.unexpected)} are unexpected {self.unexpected[:5]}; {'; '.join(self.log)}"
        )


def outcome(total: int, delivered: Iterable[int], log: Sequence[str] = ()) -> Outcome:
    """Compare the delivered events with the numbers from 0 to ``total``."""
    counts = Counter(delivered)
    missing = [number for number in range(total) if number not in counts]
    unexpected = [number for number in counts if not 0 <= number < total]
    return Outcome(total, missing, sum(counts.values()) - len(counts), unexpected, list(log))


@dataclass
class Trial:
    """One pipeline that is killed several times.

    ``restartable`` are servers that may be stopped or killed, each as often as the others; the run must survive it.
    """

    engine: Engine
    setup: KillSetup
    restartable: Mapping[str, Server] = field(default_factory=dict)
    drain: bool = False
    """Whether the last run also gives what stateful steps still hold."""
    seed: int = 0
    runs: int = field(init=False)
    events: int = EVENTS if RUNS else FEW_EVENTS
    log: list[str] = field(default_factory=list)
    kills: Counter[Victim] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    """Restarts of each server."""
    total: int = 0

    def __post_init__(self) -> None:
        self.seed = self.seed or int(os.environ.get("SLUICE_SEED", "0")) or random.randrange(1, 1 << 32)
        self.random = random.Random(self.seed)
        self.whole = self.setup.whole
        self.runs = RUNS or FEW_RUNS
        self.log.append(f"SLUICE_SEED={self.seed}")

    @property
    def several_queries(self) -> bool:
        """Whether the pipeline has queries of several sources."""
        return len(self.setup.sources) > 1

    def __call__(self) -> list[Outcome]:
        """Do all runs that are killed, then one to the end; return the outcome of each sink."""
        for number, victim in enumerate(self._victims()):
            if self.whole or number == 0:
                self._begin(number)
            if self.whole:
                self._write(self.events)
            with self._running(number, *(["--once"] if self.whole else [])) as run:
                self._wait_until_running(number, run)
                self._run_and_kill(number, run, victim)
            if self.whole:
                self._finish()
        if not self.whole:
            self._finish()
        return [outcome(self.total, output.delivered(), self.log) for output in self.setup.outputs]

    def _victims(self) -> list[Victim]:
        """Return a victim for each run: each kind as often as the others, as far as possible."""
        kinds: list[Victim] = ["worker", "driver", "jvm", *(["server"] if self.restartable else [])]
        self.random.shuffle(kinds)
        return [kinds[number % len(kinds)] for number in range(self.runs)]

    def _begin(self, number: int) -> None:
        """Create the sources' inputs, and a pipeline that reads them with a state folder of its own."""
        self.state = self.setup.workspace.state = self.engine.etl.folder / f"state-{number}"
        self.setup.begin()
        self.pipeline = self.engine.etl.pipeline(self.setup.pipeline(f"kills-{number}"))

    def _run_and_kill(self, number: int, run: subprocess.Popen[bytes], victim: Victim) -> None:
        """Write events in slices, and kill the victim at one of them; a run that survives gets SIGTERM at the end."""
        at = SLICES - 1 if self.setup.receives else self.random.randrange(SLICES)  # events sent after the kill would be lost
        for piece in range(1 if self.whole else SLICES):
            if not self.whole:
                begun = self._begun_batches()
                self._write(self.events // SLICES)
                time.sleep(self.random.uniform(0, PAUSE_SECONDS))  # kills at random moments
            if self.whole or piece == at:
                self._wait_for_work(() if self.whole else begun, run)
                time.sleep(self.random.uniform(0, MAX_KILL_DELAY_SECONDS * max(1, len(self.setup.sources) / 2)))
                self.log.append(f"run {number}: {self._kill_victim(run, victim)}" + ("" if self.whole else f" at slice {at}"))
        if run.poll() is None and not self.whole:
            run.send_signal(signal.SIGTERM)

    def _write(self, events: int) -> None:
        self.setup.write_events(self.total, self.total + events)
        self.total += events

    def _kill_victim(self, run: subprocess.Popen[bytes], victim: Victim) -> str:
        if run.poll() is not None:
            return f"had ended ({run.returncode}) before its {victim} was killed"
        what = {
            "driver": self._kill_driver,
            "worker": self._kill_worker,
            "jvm": self._kill_jvm,
            "server": self._restart_server,
        }[victim](run)
        if what:
            self.kills[victim] += 1
        return what or "no worker to kill"

    def _kill_driver(self, run: subprocess.Popen[bytes]) -> str:
        run.kill()
        run.wait()
        return "driver killed"

    def _kill_worker(self, run: subprocess.Popen[bytes]) -> str:
        """Kill a worker; each one where queries of several sources run, so that all of them have one that was killed."""
        found: list[int] = []
        wait_for(lambda: bool(found.extend(workers(run.pid)) or found) or run.poll() is not None, what="a worker")
        several = self.several_queries
        killed = [pid for pid in (found if several else self.random.sample(found, min(1, len(found)))) if _is_killed(pid)]
        return f"{len(killed)} workers killed" if several and killed else "worker killed" if killed else ""

    def _kill_jvm(self, run: subprocess.Popen[bytes]) -> str:
        for pid in jvms(run.pid):
            os.kill(pid, signal.SIGKILL)
            return "JVM killed"
        return ""

    def _restart_server(self, run: subprocess.Popen[bytes]) -> str:
        fewest = min(self.restarts[name] for name in self.restartable)
        name = self.random.choice([name for name in self.restartable if self.restarts[name] == fewest])
        server, gently = self.restartable[name], self.random.random() < 0.5
        (server.stop if gently else server.kill)()
        server.start()
        self.restarts[name] += 1
        return f"{name} {'restarted' if gently else 'killed and started'}"

    def _begun_batches(self) -> tuple[tuple[str, int], ...]:
        """Return the queries, and how many micro-batches each has begun."""
        folders = sorted(self.state.glob("queries/*/checkpoint/offsets"))
        return tuple((str(folder), last) for folder in folders if (last := _last_number(folder)) >= 0)

    def _wait_for_work(self, before: Iterable[tuple[str, int]], run: subprocess.Popen[bytes]) -> None:
        """Wait until a micro-batch begins that may have the newest events."""
        known = set(before)
        wait_for(lambda: run.poll() is not None or bool(set(self._begun_batches()) - known), what="a micro-batch")

    def _finish(self) -> None:
        """Read the remaining events with a run in this process."""
        drain = ["--drain"] if self.drain else []
        ran = self.engine.run(self.pipeline, "--once", *drain, "--state", self.state)
        assert ran.status == 0, f"{self.log}\n{ran.err[-4000:]}"

    @contextmanager
    def _running(self, number: int, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        words = ("run", str(self.pipeline), "--master", "local[2]", "--state", str(self.state), *more)
        with self._log_file(number).open("wb") as log:
            command, folder = [sys.executable, "-m", "etl", *words], self.engine.etl.folder
            run = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield run
            run.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run did not end: {self.log}\n{self._log_file(number).read_text()[-4000:]}") from None
        finally:
            if run.poll() is None:
                run.kill()
                run.wait()

    def _wait_until_running(self, number: int, run: subprocess.Popen[bytes]) -> None:
        log = self._log_file(number)
        wait_for(lambda: b"\nrunning " in log.read_bytes() or run.poll() is not None, what="the start of the run")
        assert run.poll() is None, log.read_text()[-4000:]

    def _log_file(self, number: int) -> Path:
        return self.engine.etl.folder / f"killed-{number}.log"


def _is_killed(pid: int) -> bool:
    """Kill a process; False if it had ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _last_number(folder: Path) -> int:
    """Return the largest number that is the name of a file; -1 if there is none."""
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=-1)
