"""A source and a sink with faults that a test switches on and off during a run, by writing their names to a file.

`installed_in` installs them for the runs of a test: it makes a folder on ``PYTHONPATH`` that looks like a distribution.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import (
    OFFSET,
    BatchId,
    ComponentError,
    Finding,
    Limit,
    Offset,
    Rejects,
    Result,
    Schema,
    Sink,
    Source,
    Split,
    SplitLostError,
    Staged,
    Task,
)

if TYPE_CHECKING:
    import pytest

BATCH = 100


def fault(folder: str) -> str:
    """Return the current fault; ``none`` if there is none."""
    try:
        return (Path(folder) / "fault").read_text()
    except FileNotFoundError:
        return "none"


def set_fault(folder: Path, word: str) -> None:
    """Set the fault; the next call of the component has it."""
    folder.mkdir(exist_ok=True)
    fresh = folder / "fault.new"
    fresh.write_text(word)
    fresh.replace(folder / "fault")


class FaultySource(Source):
    """Numbers up to the one in the file ``count``, in splits of ``split``. With the fault ``down`` it raises
    ConnectionRefusedError, with ``breaks`` only within a split.
    """

    type: Literal["faulty"] = "faulty"
    path: str
    split: int = 1000

    def fields(self) -> Schema:
        return pa.schema([("n", pa.int64())])

    def probe(self) -> Iterable[Finding]:
        self._raise_if()
        return ()

    def start(self) -> Offset:
        self._raise_if()
        return {"n": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        self._raise_if()
        return {"n": max(start["n"], int((Path(self.path) / "count").read_text()))}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        edges = [*range(start["n"], end["n"], self.split), end["n"]]
        return [Split("0", a, b) for a, b in itertools.pairwise(edges)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for first in range(split.start, split.end, BATCH):
            numbers = pa.array(range(first, min(first + BATCH, split.end)), pa.int64())
            yield pa.RecordBatch.from_arrays([numbers, numbers], names=["n", OFFSET])
            self._raise_if("breaks")

    def _raise_if(self, when: str = "down") -> None:
        if fault(self.path) == when:
            raise ConnectionRefusedError(f"{self.path}: connection refused")


class FaultySink(Sink):
    """Appends the numbers of each write as a line. With ``ledger`` a split is written as a whole, once.

    Faults: ``down`` (opening and writing fail), ``refuses`` (writing fails), ``closes`` (the split is lost), ``full`` (all events
    are retryable), ``slow``, ``picky`` (odd numbers are rejected), ``wrong`` (a permanent error), ``hangs`` (the probe).
    """

    type: Literal["faulty"] = "faulty"
    path: str = Field(min_length=1)
    ledger: bool = False

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        if fault(self.path) in ("down", "hangs"):
            time.sleep(60 if fault(self.path) == "hangs" else 0)
            raise ConnectionRefusedError(f"{self.path}: connection refused")
        if fault(self.path) == "wrong":
            yield Finding("unknown-table", f"there is no table in {self.path}", ("path",))

    def committer(self, folder: str) -> FaultyCommitter:
        if fault(self.path) == "down":
            raise ConnectionRefusedError(f"{self.path}: connection refused")
        Path(self.path, "ready").touch()
        return FaultyCommitter(self)

    def open(self, task: Task) -> FaultyWriter:
        assert Path(self.path, "ready").exists(), "the sink was opened before its committer"
        if fault(self.path) == "down":
            raise ConnectionRefusedError(f"{self.path}: connection refused")
        return FaultyWriter(self, task)


class FaultyCommitter:
    """Appends the number of each committed micro-batch to a file."""

    def __init__(self, sink: FaultySink) -> None:
        self.sink = sink

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        if fault(self.sink.path) == "down":
            raise ConnectionRefusedError(f"{self.sink.path}: connection refused")
        with Path(self.sink.path, "commits").open("a") as commits:
            commits.write(f"{batch.number}\n")

    def tick(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class FaultyWriter:
    """Writes numbers, or fails as the current fault says."""

    def __init__(self, sink: FaultySink, task: Task) -> None:
        self.sink = sink
        batch: BatchId = task.batch
        self.key = f"{batch.query}-{batch.number}-{task.split}"
        self.written: list[int] = []

    def sizes(self, batch: pa.RecordBatch) -> None:
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        now = fault(self.sink.path)
        if now in ("down", "refuses"):
            raise ConnectionRefusedError(f"{self.sink.path}: connection refused")
        if now == "closes":
            raise SplitLostError(f"{self.sink.path}: connection reset")
        if now == "wrong":
            raise ComponentError("there is no such table")
        if now == "full":
            return Result(retryable=pa.array(range(batch.num_rows)), cause="429: too many requests")
        if now == "slow":
            time.sleep(0.05)
        odd = pc.equal(pc.bit_wise_and(batch.column("n"), 1), 1) if now == "picky" else None
        self._write(batch if odd is None else batch.filter(pc.invert(odd)))
        return Result() if odd is None else Result(rejected=(Rejects(batch.filter(odd), "odd", "is odd"),))

    def _write(self, batch: pa.RecordBatch) -> None:
        numbers = batch.column("n").to_pylist()
        self.written += numbers
        if not self.sink.ledger:
            self._append(numbers)

    def close(self) -> Staged | None:
        if self.sink.ledger:
            done = Path(self.sink.path, "ledger", self.key)
            done.parent.mkdir(exist_ok=True)
            fresh = done.with_name(f".{done.name}.{os.getpid()}")
            fresh.write_text(json.dumps(self.written))
            try:
                os.link(fresh, done)  # once only
            except FileExistsError:
                pass
            else:
                with Path(self.sink.path, "order").open("a") as order:
                    order.write(done.name + "\n")
            fresh.unlink()
        return None

    def abort(self) -> None:
        """Do nothing: what is not closed is not in the ledger."""

    def _append(self, numbers: list[int]) -> None:
        with Path(self.sink.path, "out").open("ab", buffering=0) as out:  # whole lines, also for who reads meanwhile
            out.write(f"{json.dumps(numbers)}\n".encode())


def delivered(folder: Path) -> list[int]:
    """Return all numbers that a sink wrote, in order."""
    ledger, out = folder / "ledger", folder / "out"
    if ledger.exists():
        texts = [path.read_text() for path in sorted(ledger.iterdir(), key=lambda p: p.stat().st_mtime_ns) if path.name[0] != "."]
    else:
        texts = out.read_text().splitlines() if out.exists() else []
    return [number for text in texts for number in json.loads(text)]


COMPONENTS = (FaultySource, FaultySink)


@contextmanager
def installed_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install these components for this process and for the processes that it starts."""
    from etl.catalogue import installed

    monkeypatch.setenv("PYTHONPATH", installed_in(folder))
    monkeypatch.syspath_prepend(str(folder))
    installed.cache_clear()
    try:
        yield
    finally:
        installed.cache_clear()


def installed_in(folder: Path) -> str:
    """Make the folder a distribution with these components; return the value for ``PYTHONPATH``."""
    info = folder / "faulty-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[etl.components]\nfaulty = faulty\n")
    return f"{folder}:{Path(__file__).parent}"
