"""Killing runs at random points, and counting what came out at the other end.

A test says how events are put in and how they are read back; an event is a number. With ``SLUICE_KILLS=10`` there are ten
runs of 200,000 events each; without it two small ones. ``SLUICE_SEED`` repeats the points of an earlier trial.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from running import Etl, wait_for

RUNS = int(os.environ.get("SLUICE_KILLS", "0"))
EVENTS = 200_000
FEW_RUNS, FEW_EVENTS = 2, 10_000
SLICES = 20
"""In so many pieces the events of a run are put in, with pauses of random length."""
PAUSE_SECONDS = 0.15
STOP_SECONDS = 120.0


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

    def __str__(self) -> str:
        return (
            f"of {self.total} events {len(self.missing)} are missing {self.missing[:5]}, {self.repeats} came again, "
            f"{len(self.foreign)} are foreign {self.foreign[:5]}; {'; '.join(self.done)}"
        )


@dataclass
class Trial:
    """One pipeline, killed again and again.

    ``fill(first, last)`` puts in the events of these numbers (half open); ``delivered()`` reads all that came out, repeats
    included. ``restart`` stops and starts the server in between, where there is one; the run has to live through it.
    """

    etl: Etl
    pipeline: Path
    fill: Callable[[int, int], object]
    delivered: Callable[[], Iterable[int]]
    restart: Callable[[], object] | None = None
    words: Sequence[str] = ()
    dice: random.Random = field(default_factory=random.Random)
    done: list[str] = field(default_factory=list)
    total: int = 0

    def __call__(self) -> Outcome:
        """All runs, then one to the end."""
        runs, events = (RUNS, EVENTS) if RUNS else (FEW_RUNS, FEW_EVENTS)
        attacks = _many_attacks(self.restart) if RUNS else _few_attacks(self.restart)
        for number in range(runs):
            self._attacked(number, events, attacks[number % len(attacks)])
        with self._running(runs, "--once") as last:
            assert last.wait(600) == 0, self._log(runs).read_text()[-4000:]
        return outcome(self.total, self.delivered(), self.done)

    def _attacked(self, number: int, events: int, attack: Attack) -> None:
        """Put events in, in slices; at one of them strike; whoever lives through it is ended gently, else begun anew."""
        at = self.dice.randrange(SLICES)
        with self._running(number) as run:
            self._wait_until_running(number, run)
            for piece in range(SLICES):
                self._put(events // SLICES)
                time.sleep(self.dice.uniform(0, PAUSE_SECONDS))  # a random point is what is wanted
                if piece == at:
                    time.sleep(self.dice.uniform(0, PAUSE_SECONDS * SLICES))
                    self.done.append(f"run {number}: {attack(self, run)} at slice {at}")
            if run.poll() is None:
                run.send_signal(signal.SIGTERM)

    def _put(self, events: int) -> None:
        self.fill(self.total, self.total + events)
        self.total += events

    @contextmanager
    def _running(self, number: int, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        state = str(self.etl.folder / "state")
        words = ("run", str(self.pipeline), "--master", "local[2]", "--state", state, *self.words, *more)
        with self._log(number).open("wb") as log:
            run = subprocess.Popen(
                [sys.executable, "-m", "etl", *words], cwd=self.etl.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
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
        return self.etl.folder / f"killed-{number}.log"


Attack = Callable[[Trial, "subprocess.Popen[bytes]"], str]


def kills(
    etl: Etl,
    pipeline: Path,
    fill: Callable[[int, int], object],
    delivered: Callable[[], Iterable[int]],
    restart: Callable[[], object] | None = None,
    words: Sequence[str] = (),
) -> Outcome:
    """Run a following pipeline, kill it at random points, let it finish, and compare. ``words`` go to ``etl run``."""
    seed = int(os.environ.get("SLUICE_SEED", "0")) or random.randrange(1, 1 << 32)
    trial = Trial(etl, pipeline, fill, delivered, restart, words, random.Random(seed), [f"SLUICE_SEED={seed}"])
    return trial()


def outcome(total: int, delivered: Iterable[int], done: Sequence[str] = ()) -> Outcome:
    """Compare what came out with the numbers from 0 to ``total``."""
    counts = Counter(delivered)
    missing = [number for number in range(total) if number not in counts]
    foreign = [number for number in counts if not 0 <= number < total]
    return Outcome(total, missing, sum(counts.values()) - len(counts), foreign, list(done))


def _kill_driver(trial: Trial, run: subprocess.Popen[bytes]) -> str:
    run.kill()
    run.wait()
    return "driver killed"


def _kill_worker(trial: Trial, run: subprocess.Popen[bytes]) -> str:
    found = list(workers(run.pid))
    if not found:
        return "no worker to kill"
    try:
        os.kill(trial.dice.choice(found), signal.SIGKILL)
    except ProcessLookupError:
        return "the worker had ended"
    return "worker killed"


def _restart(trial: Trial, run: subprocess.Popen[bytes]) -> str:
    assert trial.restart is not None
    trial.restart()
    return "server restarted"


def _many_attacks(restart: object) -> list[Attack]:
    return [_kill_worker, _kill_driver, *([_restart] if restart else [])]


def _few_attacks(restart: object) -> list[Attack]:
    """In the two runs of an ordinary test the server restarts just before a worker is killed."""

    def both(trial: Trial, run: subprocess.Popen[bytes]) -> str:
        return f"{_restart(trial, run)}, {_kill_worker(trial, run)}"

    return [both if restart else _kill_worker, _kill_driver]


def workers(driver: int) -> Iterator[int]:
    """The Python processes below a driver that read and write: those its worker daemon forked."""
    parents = dict(_processes())
    daemons = {pid for pid in parents if b"-m\0etl.spark.daemon\0" in _command(pid)}
    for pid in daemons:
        if parents[pid] in daemons and driver in _above(pid, parents):
            yield pid


def _above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid in parents:
        pid = parents[pid]
        yield pid


def _processes() -> Iterator[tuple[int, int]]:
    """Process → its parent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
