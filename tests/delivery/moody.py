"""A source and a sink whose moods a test changes while a run is at work, by writing them to a file.

They are installed for the runs of a test by `installed_in`: a folder on ``PYTHONPATH`` that looks like a distribution.
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


def mood(folder: str) -> str:
    """What the test wants now."""
    try:
        return (Path(folder) / "mood").read_text()
    except FileNotFoundError:
        return "good"


def set_mood(folder: Path, word: str) -> None:
    """Change it at once."""
    folder.mkdir(exist_ok=True)
    fresh = folder / "mood.new"
    fresh.write_text(word)
    fresh.replace(folder / "mood")


class MoodySource(Source):
    """Numbers up to that in the file ``count``, in splits of ``split``; ``down`` it raises ConnectionRefusedError."""

    type: Literal["moody"] = "moody"
    path: str
    split: int = 1000

    def fields(self) -> Schema:
        return pa.schema([("n", pa.int64())])

    def probe(self) -> Iterable[Finding]:
        self._up()
        return ()

    def start(self) -> Offset:
        self._up()
        return {"n": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        self._up()
        return {"n": max(start["n"], int((Path(self.path) / "count").read_text()))}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        edges = [*range(start["n"], end["n"], self.split), end["n"]]
        return [Split("0", a, b) for a, b in itertools.pairwise(edges)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Breaks off in the middle of a split when it is down there."""
        for first in range(split.start, split.end, BATCH):
            numbers = pa.array(range(first, min(first + BATCH, split.end)), pa.int64())
            yield pa.RecordBatch.from_arrays([numbers, numbers], names=["n", OFFSET])
            self._up("breaks")

    def _up(self, when: str = "down") -> None:
        if mood(self.path) == when:
            raise ConnectionRefusedError(f"{self.path}: connection refused")


class MoodySink(Sink):
    """Appends a line for each write: the numbers it took. With ``ledger`` a split is there as a whole or not at all.

    Moods: ``down`` (opening and writing), ``refuses`` (writing), ``closes`` (the split is lost), ``full`` (nothing is taken),
    ``slow``, ``picky`` (odd numbers are rejected), ``wrong`` (a permanent error).
    """

    type: Literal["moody"] = "moody"
    path: str = Field(min_length=1)
    ledger: bool = False

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        if mood(self.path) in ("down", "hangs"):
            time.sleep(60 if mood(self.path) == "hangs" else 0)
            raise ConnectionRefusedError(f"{self.path}: connection refused")
        if mood(self.path) == "wrong":
            yield Finding("unknown-table", f"there is no table in {self.path}", ("path",))

    def committer(self, folder: str) -> MoodyCommitter:
        if mood(self.path) == "down":
            raise ConnectionRefusedError(f"{self.path}: connection refused")
        Path(self.path, "ready").touch()
        return MoodyCommitter(self)

    def open(self, task: Task) -> MoodyWriter:
        assert Path(self.path, "ready").exists(), "the committer was not there first"
        if mood(self.path) == "down":
            raise ConnectionRefusedError(f"{self.path}: connection refused")
        return MoodyWriter(self, task)


class MoodyCommitter:
    """Notes what was committed."""

    def __init__(self, sink: MoodySink) -> None:
        self.sink = sink

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        if mood(self.sink.path) == "down":
            raise ConnectionRefusedError(f"{self.sink.path}: connection refused")
        with Path(self.sink.path, "commits").open("a") as commits:
            commits.write(f"{batch.number}\n")

    def tick(self) -> None:
        """Nothing is due."""

    def close(self) -> None:
        """Nothing is open."""


class MoodyWriter:
    """Does as the mood says."""

    def __init__(self, sink: MoodySink, task: Task) -> None:
        self.sink = sink
        batch: BatchId = task.batch
        self.key = f"{batch.query}-{batch.number}-{task.split}"
        self.taken: list[int] = []

    def sizes(self, batch: pa.RecordBatch) -> None:
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        now = mood(self.sink.path)
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
        self._take(batch if odd is None else batch.filter(pc.invert(odd)))
        return Result() if odd is None else Result(rejected=(Rejects(batch.filter(odd), "odd", "is odd"),))

    def _take(self, batch: pa.RecordBatch) -> None:
        numbers = batch.column("n").to_pylist()
        self.taken += numbers
        if not self.sink.ledger:
            self._append(numbers)

    def close(self) -> Staged | None:
        if self.sink.ledger:
            done = Path(self.sink.path, "ledger", self.key)
            done.parent.mkdir(exist_ok=True)
            fresh = done.with_name(f".{done.name}.{os.getpid()}")
            fresh.write_text(json.dumps(self.taken))
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
        """What was not closed is gone."""

    def _append(self, numbers: list[int]) -> None:
        with Path(self.sink.path, "out").open("a") as out:
            out.write(json.dumps(numbers) + "\n")


def delivered(folder: Path) -> list[int]:
    """All numbers that a sink took, in order."""
    ledger, out = folder / "ledger", folder / "out"
    if ledger.exists():
        texts = [path.read_text() for path in sorted(ledger.iterdir(), key=lambda p: p.stat().st_mtime_ns) if path.name[0] != "."]
    else:
        texts = out.read_text().splitlines() if out.exists() else []
    return [number for text in texts for number in json.loads(text)]


COMPONENTS = (MoodySource, MoodySink)


@contextmanager
def installed_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """These components are installed for this process and for the processes that it starts."""
    from etl.catalogue import installed

    monkeypatch.setenv("PYTHONPATH", installed_in(folder))
    monkeypatch.syspath_prepend(str(folder))
    installed.cache_clear()
    try:
        yield
    finally:
        installed.cache_clear()


def installed_in(folder: Path) -> str:
    """Make the folder a distribution with these components; the value for ``PYTHONPATH``."""
    info = folder / "moody-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moody\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[etl.components]\nmoody = moody\n")
    return f"{folder}:{Path(__file__).parent}"
