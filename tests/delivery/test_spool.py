"""A spool as driver and tasks use it, with kills at every step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from etl.api import BatchId, ComponentError
from etl.delivery import spool_file
from etl.delivery.spool import SinkSpool
from etl.delivery.spool_file import SpoolFile
from etl.receipts import Spooled

SCHEMA = pa.schema([("n", pa.int64())])


def item(folder: Path, name: str, *numbers: int) -> Spooled:
    folder.mkdir(exist_ok=True)
    file = SpoolFile(folder / name)
    file.write(pa.RecordBatch.from_pydict({"n": list(numbers)}))
    file.close()
    schema = SCHEMA.serialize().to_pybytes()
    return Spooled(str(folder / name), "source", "0", name, "identity", schema, len(numbers))


def read(items: tuple[Spooled, ...]) -> list[int]:
    return [n for one in items for batch in spool_file.batches(Path(one.path)) for n in batch.column("n").to_pylist()]


def test_batches_are_read_back_unchanged_also_when_the_schema_changes(tmp_path: Path) -> None:
    given = [
        pa.record_batch({"a": [1, 2]}),
        pa.record_batch({"a": ["x"], "b": [None]}),
        pa.record_batch({"a": ["y"], "b": [None]}),
    ]
    file = SpoolFile(tmp_path / "file")

    for batch in given:
        file.write(batch)
    file.close()

    assert list(spool_file.batches(tmp_path / "file")) == given


def test_entries_are_delivered_in_the_order_of_their_commits(tmp_path: Path) -> None:
    spool = SinkSpool(tmp_path / "spool")
    spool.add(BatchId("q", 7), [item(tmp_path / "staged", "a", 1, 2), item(tmp_path / "staged", "b", 3)])
    spool.add(BatchId("q", 8), [item(tmp_path / "staged", "a", 4)])

    first = spool.first_entry()

    assert first is not None
    assert (first.batch, read(first.items), spool.pending_events) == (BatchId("q", 7), [1, 2, 3], 4)
    assert pa.ipc.read_schema(pa.py_buffer(first.items[0].schema)) == SCHEMA
    spool.remove(first)
    second = spool.first_entry()
    assert second is not None
    assert read(second.items) == [4]
    spool.remove(second)
    assert spool.is_empty
    assert spool.bytes() <= 4096


def test_a_micro_batch_is_added_once_also_after_its_delivery(tmp_path: Path) -> None:
    spool = SinkSpool(tmp_path / "spool")
    spool.add(BatchId("q", 7), [item(tmp_path / "staged", "a", 1)])

    assert spool.has_batch(BatchId("q", 7))
    assert not spool.has_batch(BatchId("q", 8))
    assert not spool.has_batch(BatchId("other", 7))

    spool.remove(next(spool.entries()))
    assert SinkSpool(tmp_path / "spool").has_batch(BatchId("q", 7))


def test_files_of_a_killed_commit_are_removed_and_its_batch_is_added_again(tmp_path: Path) -> None:
    spool = SinkSpool(tmp_path / "spool")
    spool.add(BatchId("q", 7), [item(tmp_path / "staged", "a", 1)])
    (spool.folder / "000000000001-0.arrow").write_bytes(b"half")

    spool.recover()
    spool.add(BatchId("q", 8), [item(tmp_path / "staged", "a", 2)])

    assert [read(entry.items) for entry in spool.entries()] == [[1], [2]]


def test_a_kill_between_an_entry_and_the_ledger_is_repaired(tmp_path: Path) -> None:
    spool = SinkSpool(tmp_path / "spool")
    spool.add(BatchId("q", 7), [item(tmp_path / "staged", "a", 1)])
    (spool.folder / "ledger.json").unlink()

    spool.recover()

    assert spool.has_batch(BatchId("q", 7))
    spool.add(BatchId("q", 8), [item(tmp_path / "staged", "b", 2)])
    assert [read(entry.items) for entry in spool.entries()] == [[1], [2]]


def test_the_spool_stays_active_after_a_restart_while_events_wait(tmp_path: Path) -> None:
    spool = SinkSpool(tmp_path / "spool")
    assert not spool.is_active
    spool.activate()
    assert spool.is_active

    spool.recover()
    assert not spool.is_active

    spool.add(BatchId("q", 1), [item(tmp_path / "staged", "a", 1)])
    spool.recover()
    assert spool.is_active


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"items": [1], "query": "q", "batch": 1}'])
def test_the_error_of_an_invalid_entry_gives_advice(tmp_path: Path, text: str) -> None:
    spool = SinkSpool(tmp_path / "spool")
    spool.add(BatchId("q", 1), [item(tmp_path / "staged", "a", 1)])
    (spool.folder / "000000000000.json").write_text(text)

    with pytest.raises(ComponentError, match=r"000000000000\.json cannot be read .* restore it from a backup"):
        spool.first_entry()


def test_an_entry_of_delivered_events_stays_marked(tmp_path: Path) -> None:
    spool = SinkSpool(tmp_path / "spool")

    spool.add(BatchId("q", 1), [replace(item(tmp_path / "staged", "a", 1), delivered=True)])

    assert next(spool.entries()).items[0].delivered
