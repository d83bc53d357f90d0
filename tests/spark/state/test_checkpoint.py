"""Damaged files of a checkpoint."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from etl.api import ComponentError
from etl.spark.state.checkpoint import repair_checkpoint, write_checksum
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import read_numbers

OFFSET = 'v1\n{"batchWatermarkMs":0}\n{"sources": {"main": {"offset": 1}}, "parallelism": 2}'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
DAMAGED = ["", "garbage\n", "\xff\x00", "v1\n{broken", "{}"]


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    """Micro-batches 8 and 9, both committed."""
    made = StateFolder(tmp_path)
    for name, text in (("offsets/8", OFFSET), ("offsets/9", OFFSET), ("commits/8", COMMIT), ("commits/9", COMMIT)):
        put(made, name, text)
    put(made, "metadata", '{"id":"b6f518c9"}')
    return made


def put(state: StateFolder, name: str, text: str) -> Path:
    file = state.checkpoint("main") / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("latin-1"))
    return file


def test_an_undamaged_checkpoint_is_not_changed(state: StateFolder) -> None:
    before = {path: path.read_bytes() for path in state.root.rglob("*") if path.is_file()}

    assert repair_checkpoint(state, "main") == []
    assert {path: path.read_bytes() for path in state.root.rglob("*") if path.is_file()} == before
    assert repair_checkpoint(state, "another") == []


def test_temporary_files_are_removed_before_the_first_micro_batch(tmp_path: Path, state: StateFolder) -> None:
    new = StateFolder(tmp_path / "new")
    left = [
        put(one, f"{log}/.{number}.5f0c.tmp", "v1") for one in (new, state) for log, number in (("offsets", 0), ("commits", 0))
    ]

    assert repair_checkpoint(new, "main") == []
    assert repair_checkpoint(state, "main") == []

    assert [file.exists() for file in left] == [False, False, True, True]


@pytest.mark.parametrize("text", DAMAGED)
@pytest.mark.parametrize("number", [8, 9])
def test_the_error_for_damaged_offsets_names_the_file_and_the_remedies(state: StateFolder, number: int, text: str) -> None:
    file = put(state, f"offsets/{number}", text)

    with pytest.raises(ComponentError) as raised:
        repair_checkpoint(state, "main")

    assert str(raised.value).startswith(f"query 'main': checkpoint file {file} is damaged (")
    assert f"or remove {state.query('main')}, and the query starts over" in str(raised.value)


@pytest.mark.parametrize("text", DAMAGED[:-1])
def test_a_damaged_last_commit_is_removed(state: StateFolder, text: str) -> None:
    file = put(state, "commits/9", text)

    (note,) = repair_checkpoint(state, "main")

    assert note.endswith("is removed: micro-batch 9 runs again")
    assert not file.exists()


@pytest.mark.parametrize("text", DAMAGED[:-1])
def test_a_damaged_commit_before_an_interrupted_batch_is_rebuilt(state: StateFolder, text: str) -> None:
    put(state, "offsets/10", OFFSET.replace(":0}", ':1700,"conf":{}}', 1))
    file = put(state, "commits/9", text)

    (note,) = repair_checkpoint(state, "main")

    assert note.endswith("is rebuilt from the offsets of micro-batch 10")
    assert file.read_text() == COMMIT.replace(":0", ":1700")
    assert repair_checkpoint(state, "main") == []


def test_a_commit_that_may_name_state_versions_is_not_rebuilt(state: StateFolder) -> None:
    put(state, "offsets/10", OFFSET)
    put(state, "commits/8", 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"]]}}')
    file = put(state, "commits/9", "garbage")

    with pytest.raises(ComponentError, match=f"checkpoint file {file} is damaged"):
        repair_checkpoint(state, "main")


def test_the_only_commit_of_a_query_with_state_is_not_rebuilt(state: StateFolder) -> None:
    put(state, "offsets/10", OFFSET)
    put(state, "state/0/0/1.delta", "x")
    (state.checkpoint("main") / "commits/8").unlink()
    file = put(state, "commits/9", "garbage")

    with pytest.raises(ComponentError, match=f"checkpoint file {file} is damaged .* or remove "):
        repair_checkpoint(state, "main")


@pytest.mark.parametrize("text", [*DAMAGED, None])
def test_damaged_metadata_is_replaced_between_two_batches(state: StateFolder, text: str | None) -> None:
    file = put(state, "metadata", text or "")
    if text is None:
        file.unlink()

    (note,) = repair_checkpoint(state, "main")

    assert note.endswith("is replaced: the query has a new id")
    assert len(json.loads(file.read_text())["id"]) == 36
    assert repair_checkpoint(state, "main") == []


def test_missing_offsets_are_an_error(state: StateFolder) -> None:
    (state.checkpoint("main") / "offsets/9").unlink()

    with pytest.raises(ComponentError, match="offsets/9 is damaged \\(it is missing\\)"):
        repair_checkpoint(state, "main")


def test_damaged_metadata_of_an_interrupted_batch_is_an_error(state: StateFolder) -> None:
    put(state, "offsets/10", OFFSET)
    file = put(state, "metadata", "{}")

    with pytest.raises(ComponentError, match=f"checkpoint file {file} is damaged"):
        repair_checkpoint(state, "main")


def test_the_checksum_shows_a_changed_byte(state: StateFolder) -> None:
    checksums = b"crc\0" + (512).to_bytes(4, "big") + zlib.crc32(OFFSET.encode()).to_bytes(4, "big")
    put(state, "offsets/.9.crc", checksums.decode("latin-1"))
    assert repair_checkpoint(state, "main") == []

    put(state, "offsets/9", OFFSET.replace("2}", "3}"))

    with pytest.raises(ComponentError, match="offsets/9 is damaged \\(its checksum does not fit\\)"):
        repair_checkpoint(state, "main")


def test_a_written_checksum_shows_a_changed_byte_after_the_first_chunk(state: StateFolder) -> None:
    offsets = OFFSET.replace("}", "}" + " " * 600, 1)
    put(state, "offsets/9", offsets)
    write_checksum(state, "main", 9)
    assert repair_checkpoint(state, "main") == []

    put(state, "offsets/9", offsets.replace("2}", "3}"))

    with pytest.raises(ComponentError, match="offsets/9 is damaged \\(its checksum does not fit\\)"):
        repair_checkpoint(state, "main")


def test_checksums_of_old_offsets_are_removed(state: StateFolder) -> None:
    for number in range(100):
        put(state, f"offsets/{number}", OFFSET)
        write_checksum(state, "main", number)

    assert len(list((state.checkpoint("main") / "offsets").glob(".*.crc"))) == 20


@pytest.mark.parametrize("text", ["", "{", "[]", '{"speed": "fast"}', "\xff"])
def test_a_damaged_file_of_numbers_is_removed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pace.json"
    file.write_bytes(text.encode("latin-1"))

    assert read_numbers(file) == {}
    assert not file.exists()


def test_numbers_are_read(tmp_path: Path) -> None:
    (tmp_path / "pace.json").write_text('{"speed": 1.5, "event_bytes": 7}')

    assert read_numbers(tmp_path / "pace.json") == {"speed": 1.5, "event_bytes": 7}
