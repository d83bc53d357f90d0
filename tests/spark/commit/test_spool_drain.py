"""The commit of a sink in the driver and the drain of its spool, without Spark: order, dead letters, restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from running import wait_for

from etl.api import OFFSET, BatchId, Rejects, Result, Retry, Sink, Staged, Task
from etl.delivery.dead_letters import SCHEMA
from etl.delivery.spool_file import SpoolFile
from etl.plan.segments import Output
from etl.receipts import Spooled
from etl.spark.commit.sink_committer import SinkCommitter
from etl.spark.commit.spool_drain import SpoolDrain
from etl.spark.reports.totals import SinkTotals, Totals
from etl.spark.state.folder import StateFolder

FIELDS = pa.schema([("n", pa.int64())])
QUICK = Retry(attempts=2, initial_backoff="10ms", max_backoff="20ms")


class Stager(Sink):
    """Stages numbers and publishes them on commit; rejects those in ``refused``; down while a file exists."""

    type: Literal["stager"] = "stager"
    path: str
    refused: frozenset[int] = frozenset()
    field: str = "n"

    def committer(self, folder: str) -> Committer:
        self.up()
        return Committer(self)

    def open(self, task: Task) -> Writer:
        self.up()
        return Writer(self, task)

    def up(self) -> None:
        if Path(self.path, "down").exists():
            raise ConnectionRefusedError("localhost:1 refused the connection")


class Committer:
    def __init__(self, sink: Stager) -> None:
        self.sink = sink

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        self.sink.up()
        shown = Path(self.sink.path, "shown")
        lines = shown.read_text().splitlines() if shown.exists() else []
        mark = f"{batch.query} {batch.number} "
        if not any(line.startswith(mark) for line in lines):
            lines.append(mark + json.dumps([n for one in staged for n in one.detail]))
            shown.write_text("\n".join(lines) + "\n")

    def tick(self) -> None:
        self.sink.up()

    def close(self) -> None:
        self.sink.up()


class Writer:
    def __init__(self, sink: Stager, task: Task) -> None:
        self.sink, self.task, self.taken = sink, task, []

    def sizes(self, batch: pa.RecordBatch) -> None:
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        self.sink.up()
        values = batch.column(self.sink.field).to_pylist()
        bad = pa.array([value in self.sink.refused for value in values])
        self.taken += [value for value in values if value not in self.sink.refused]
        return Result(rejected=(Rejects(batch.filter(bad), "bad", "no"),)) if bad.true_count else Result()

    def close(self) -> Staged | None:
        return Staged(self.task.folder, 0, len(self.taken), self.taken) if self.taken else None

    def abort(self) -> None:
        self.taken = []


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    for name in ("out", "letters"):
        (tmp_path / name).mkdir()
    return StateFolder(tmp_path / "state")


def ends(state: StateFolder, **options: object) -> tuple[SinkCommitter, SinkCommitter]:
    """The sink's and the dead letters'."""
    home = state.root.parent
    sink = Stager(path=str(home / "out"), retry=QUICK, **{"on_failure": "spool", **options})
    letters = Stager(path=str(home / "letters"), field="event")
    return SinkCommitter(Output("out", sink, FIELDS), state), SinkCommitter(Output("dead", letters, SCHEMA), state)


def spooled(state: StateFolder, name: str, *numbers: int, delivered: bool = False) -> Spooled:
    path = state.root / "staging" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    file = SpoolFile(path)
    file.write(pa.RecordBatch.from_pydict({"n": list(numbers), OFFSET: list(numbers)}))
    file.close()
    return Spooled(str(path), "log", "0", name, "id", FIELDS.serialize().to_pybytes(), len(numbers), delivered)


def shown(state: StateFolder, name: str = "out") -> list[str]:
    path = state.root.parent / name / "shown"
    return path.read_text().splitlines() if path.exists() else []


def down(state: StateFolder, yes: bool) -> None:
    path = state.root.parent / "out" / "down"
    if yes:
        path.touch()
    else:
        path.unlink(missing_ok=True)


@pytest.fixture
def drained(state: StateFolder) -> Callable[..., Totals]:
    """Run a drain until its spool is empty, or until ``done``."""

    def run(end: SinkCommitter, dead: SinkCommitter, done: Callable[[], bool] | None = None) -> Totals:
        totals = Totals(sinks={"out": SinkTotals()})
        drain = SpoolDrain("p", end, dead, state.root / "staging" / "run", totals)
        drain.start()
        try:
            wait_for(done or (lambda: drain.is_settled and end.spool.is_empty))
        finally:
            drain.stop()
        assert drain.failure is None, drain.failure
        return totals

    return run


def test_a_batch_written_directly_to_the_sink_is_committed_at_once(state: StateFolder) -> None:
    end, _ = ends(state)
    item = spooled(state, "a", 1, 2, delivered=True)

    assert end.commit(BatchId("q", 0), [Staged("", 0, 2, [1, 2])], [item]) == 0

    assert shown(state) == ["q 0 [1, 2]"]
    assert not Path(item.path).exists()
    assert end.spool.is_empty


def test_batches_in_the_spool_are_committed_in_order(state: StateFolder, drained: Callable[..., Totals]) -> None:
    end, dead = ends(state)
    end.is_waiting.set()  # nobody drains yet: a commit is not to wait for it
    taken = spooled(state, "a", 1, 2, delivered=True)

    assert end.commit(BatchId("q", 0), [Staged("", 0, 2, [1, 2])], [taken, spooled(state, "b", 3)]) == 2
    assert end.commit(BatchId("q", 1), [Staged("", 0, 1, [4])], [spooled(state, "a", 4, delivered=True)]) == 1
    assert end.commit(BatchId("q", 2), [], []) == 0
    before = shown(state)
    totals = drained(end, dead)

    assert before == []
    assert shown(state) == ["q 0 [1, 2, 3]", "q 1 [4]"]
    assert (totals.sinks["out"].accepted, totals.sinks["out"].spooled) == (4, -4)


def test_a_second_commit_of_a_batch_changes_nothing(state: StateFolder, drained: Callable[..., Totals]) -> None:
    end, dead = ends(state)
    end.is_waiting.set()
    end.commit(BatchId("q", 0), [], [spooled(state, "a", 1)])

    end.commit(BatchId("q", 0), [], [spooled(state, "a", 1)])
    drained(end, dead)
    end.commit(BatchId("q", 0), [Staged("", 0, 1, [1])], [spooled(state, "a", 1, delivered=True)])

    assert shown(state) == ["q 0 [1]"]
    assert end.spool.is_empty


def test_the_drain_waits_for_a_sink_that_is_down_and_continues_after_a_restart(
    state: StateFolder, drained: Callable[..., Totals]
) -> None:
    end, dead = ends(state)
    down(state, True)
    end.is_waiting.set()
    end.commit(BatchId("q", 0), [], [spooled(state, "a", 1), spooled(state, "b", 2)])
    drained(end, dead, done=end.is_waiting.is_set)
    assert end.spool.pending_events == 2

    again, dead = ends(state)
    assert again.spool.is_active
    down(state, False)
    drained(again, dead)

    assert shown(state) == ["q 0 [1, 2]"]


def test_a_run_with_a_sink_that_cannot_be_opened_starts_with_its_spool(state: StateFolder) -> None:
    down(state, True)

    end, _ = ends(state)

    assert end.spool.is_active
    assert end.commit(BatchId("q", 0), [], []) == 0
    end.tick()
    end.close()


def test_the_drain_delivers_a_batch_whose_commit_failed(state: StateFolder, drained: Callable[..., Totals]) -> None:
    end, dead = ends(state)
    end.is_waiting.set()
    down(state, True)

    waiting = end.commit(BatchId("q", 0), [Staged("", 0, 1, [1])], [spooled(state, "a", 1, delivered=True)])
    down(state, False)
    drained(end, dead)

    assert waiting == 1
    assert shown(state) == ["q 0 [1]"]


def test_events_that_the_sink_rejects_are_dead_letters_once(state: StateFolder, drained: Callable[..., Totals]) -> None:
    end, dead = ends(state, refused=frozenset({2, 3}))
    end.is_waiting.set()
    message = replace(spooled(state, "b", 3, 4, delivered=True), events=1)  # the task that gave it to the sink reported the 3
    end.commit(BatchId("q", 0), [Staged("", 0, 1, [4])], [spooled(state, "a", 1, 2), message])

    totals = drained(end, dead)

    assert shown(state) == ["q 0 [1, 4]"]
    (letters,) = shown(state, "letters")
    assert [json.loads(text)["n"] for text in json.loads(letters.split(" ", 2)[2])] == [2]
    assert (totals.dead, totals.sinks["out"].accepted, totals.sinks["out"].spooled) == (1, 2, -3)
