"""A commit that is interrupted leaves its committer within its work: nothing calls it again, and the next run repairs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import wait_for

from connectors.file.sink import FileSink
from connectors.file.writing import part_publisher
from etl.api import OFFSET, BatchId, ComponentError, Staged, Task
from etl.delivery.driver_calls import DriverCalls, HungCallError
from etl.plan.segments import Output
from etl.spark.commit.sink_committer import SinkCommitter
from etl.spark.state.folder import StateFolder

FIELDS = pa.schema([("n", pa.int64())])
BATCH = BatchId("query", 0)


def hang(*_: object) -> None:
    while True:
        time.sleep(0.01)


def fail(*_: object) -> None:
    raise ValueError("a mistake in the code")


def staged(sink: FileSink, folder: Path) -> list[Staged]:
    """What a task stages for one event."""
    folder.mkdir(parents=True)
    writer = sink.open(Task("a", "main", folder.name, str(folder), FIELDS, BATCH))
    writer.write(pa.RecordBatch.from_pydict({"n": [1], OFFSET: [1]}))
    return [one for one in [writer.close()] if one is not None]


@pytest.mark.parametrize(("storing", "error"), [(hang, HungCallError), (fail, ValueError)])
def test_events_of_an_interrupted_commit_are_written_once(
    storing: Callable[..., None], error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, calls = FileSink(path=str(tmp_path / "out") + "/", format="parquet"), DriverCalls()
    output = Output("main", sink, FIELDS)
    first = SinkCommitter(output, StateFolder(tmp_path / "state"), calls)

    def interrupt() -> None:
        wait_for(lambda: [call for call in calls.longer_than(0.1) if "the commit" in call.what] != [])
        calls.interrupt(calls.longer_than(0)[0])

    with monkeypatch.context() as patched:
        patched.setattr(part_publisher, "make_durable", storing)
        watch = threading.Thread(target=interrupt)
        if storing is hang:
            watch.start()
        with pytest.raises(error):
            first.commit(BATCH, staged(sink, tmp_path / "staging" / "0"), [])
        if storing is hang:
            watch.join()
    with pytest.raises(ComponentError, match="is left to the next attempt: "):
        first.commit(BATCH, staged(sink, tmp_path / "staging" / "1"), [])
    first.tick()
    first.close()

    second = SinkCommitter(output, StateFolder(tmp_path / "state"), calls)
    second.commit(BATCH, staged(sink, tmp_path / "staging" / "2"), [])
    second.close()

    assert pq.read_table(tmp_path / "out").to_pydict() == {"n": [1]}
