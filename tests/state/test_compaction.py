"""State files are merged by size tiers."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from etl.api import PANE
from etl.state import compaction
from etl.state.compaction import FILES_IN_TIER, files_to_merge, merge_by_ranges, merge_files
from etl.state.key_hash import HASH
from etl.state.manifest import StateFileEntry
from etl.state.part_rows import KeyRange
from etl.state.row_files import open_entry
from etl.state.state_file_writer import write_state_file
from etl.state.state_files import StateFile


@pytest.mark.parametrize("rows", [10, 3_000, 100_000])
def test_there_are_few_files_and_a_row_is_written_once_in_each_tier(rows: int) -> None:
    files: tuple[StateFileEntry, ...] = ()
    written, max_files, tiers = 0, 0, 1 + np.log(5_000 * rows / 4096) / np.log(8)

    for batch in range(5_000):
        files = (*files, StateFileEntry(str(batch), 0, 0, rows, 0, 0))
        chosen = files_to_merge(files)
        if chosen:
            total = sum(file.rows for file in chosen)
            written += total if total > 4096 else 0
            files = (*(file for file in files if file not in chosen), StateFileEntry(f"{batch} merged", 0, 0, total, 0, 0))
        max_files = max(max_files, len(files))

    assert sum(file.rows for file in files) == 5_000 * rows
    assert max_files <= FILES_IN_TIER * (tiers + 2)
    assert written <= 5_000 * rows * (max(tiers, 0) + 2)


@pytest.mark.parametrize(
    ("files", "rows", "arrived", "merged"),
    [(8, 20_000, 1, 8), (8, 500_000, 1_000, 0), (8, 500_000, 300_000, 8), (15, 500_000, 1_000, 0), (16, 500_000, 1_000, 16)],
)
def test_a_large_merge_waits_for_a_large_micro_batch_or_twice_as_many_files(
    files: int, rows: int, arrived: int, merged: int
) -> None:
    entries = [StateFileEntry(str(number), 0, 0, rows, 0, 0) for number in range(files)]

    assert len(files_to_merge(entries, arrived)) == merged


def _file(folder: Path, name: str, rows: list[tuple[int, int, int, int]], column: str = "n") -> StateFile:
    parts, panes, hashes, values = (np.array(numbers, np.int64) for numbers in zip(*rows, strict=True))
    table = pa.table({PANE: panes, HASH: hashes.astype(np.uint64), column: values})
    write_state_file(folder / name, table, parts, panes, durable=False)
    return StateFile(folder / name)


def test_a_merged_file_has_the_rows_of_all_but_of_panes_that_are_over(tmp_path: Path) -> None:
    files = [_file(tmp_path, "a", [(0, 0, 5, 1), (0, 1, 9, 2), (3, 1, 1, 3)]), _file(tmp_path, "b", [(0, 1, 7, 4), (0, 1, 9, 5)])]

    entry = merge_files(files, tmp_path / "c", lambda rows: rows, lambda pane: pane < 1)

    assert entry is not None
    assert (entry.rows, entry.first, entry.last) == (4, 1, 1)
    merged = open_entry(tmp_path, entry)
    assert merged.part(0).select([HASH, "n"]).to_pydict() == {HASH: [7, 9, 9], "n": [4, 2, 5]}
    assert merged.part(3).column("n").to_pylist() == [3]


def test_rows_are_combined_before_they_are_written(tmp_path: Path) -> None:
    files = [_file(tmp_path, name, [(1, 0, 5, 1), (1, 0, 6, 1)]) for name in "abc"]

    merge_files(files, tmp_path / "m", lambda rows: rows.group_by([PANE, HASH]).aggregate([("n", "sum")]), lambda pane: False)

    assert StateFile(tmp_path / "m").part(1).select([HASH, "n_sum"]).to_pydict() == {HASH: [5, 6], "n_sum": [3, 3]}


def test_a_column_that_only_some_files_have_is_null_in_the_rows_of_the_others(tmp_path: Path) -> None:
    files = [_file(tmp_path, "a", [(0, 0, 5, 1)]), _file(tmp_path, "b", [(1, 0, 5, 1)], "m")]

    merge_files(files, tmp_path / "c", lambda rows: rows, lambda pane: False)

    assert [row for part in (0, 1) for row in StateFile(tmp_path / "c").part(part).to_pylist()] == [
        {PANE: 0, HASH: 5, "n": 1, "m": None},
        {PANE: 0, HASH: 5, "n": None, "m": 1},
    ]


def test_nothing_is_written_when_all_panes_are_over(tmp_path: Path) -> None:
    files = [_file(tmp_path, "a", [(0, 0, 5, 1)])]

    assert merge_files(files, tmp_path / "b", lambda rows: rows, lambda pane: True) is None
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("few", [0, 64])
def test_a_large_part_is_merged_by_ranges_of_keys_each_in_a_file(
    few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_FEW_PANES", few)
    hashes = [number << 56 for number in range(0, 128, 2)]  # as int64
    files = [_file(tmp_path, name, [(part, 0, one, 1) for part in (0, 2) for one in hashes]) for name in "ab"]
    monkeypatch.setattr(compaction, "MERGED_BYTES", sum(file.bytes_of(0) for file in files) // 3)
    combine = lambda rows: rows.group_by([PANE, HASH]).aggregate([("n", "sum")])  # noqa: E731

    entries = merge_by_ranges(files, tmp_path / "m", combine, lambda pane: False, lambda rows: rows[HASH].to_numpy(), False)

    merged = [open_entry(tmp_path, entry) for entry in entries]
    assert [entry.name for entry in entries] == ["m", "m.1"]
    for part in (0, 2):
        rows = pa.concat_tables([pa.Table.from_batches([file.part(part)]) for file in merged])
        assert rows.sort_by(HASH).select([HASH, "n_sum"]).to_pydict() == {HASH: hashes, "n_sum": [2] * len(hashes)}


@pytest.mark.parametrize("ranges", [1, 3, 7])
def test_the_ranges_of_keys_are_the_same_in_sorted_rows(ranges: int) -> None:
    edges = [-(-(number << 32) // ranges) << 32 for number in range(ranges)]
    hashes = sorted({edge + step for edge in (*edges, 1 << 63) for step in (0, 1, -1) if edge + step >= 0} | {(1 << 64) - 1})
    rows = pa.table({HASH: np.array(hashes, np.uint64)})

    found = [KeyRange(number, ranges, lambda rows: rows) for number in range(ranges)]

    assert [one.rows_of_sorted(rows) for one in found] == [one.rows(rows) for one in found]
    assert sum(len(one.rows(rows)) for one in found) == len(hashes)


def test_a_key_with_more_rows_than_a_record_batch_holds_is_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [_file(tmp_path, name, [(0, number, 5, number) for number in range(50)]) for name in "ab"]
    monkeypatch.setattr(compaction, "MERGED_BYTES", 500)
    monkeypatch.setattr(compaction, "LARGEST_BYTES", 1000)

    entries = merge_by_ranges(files, tmp_path / "m", _refuse, lambda pane: pane < 10, lambda rows: rows[HASH].to_numpy(), False)

    assert [entry.rows for entry in entries] == [40, 40]
    found = [row for entry in entries for row in open_entry(tmp_path, entry).part(0).column("n").to_pylist()]
    assert sorted(found) == sorted([*range(10, 50)] * 2)


def _refuse(rows: pa.Table) -> pa.Table:
    raise AssertionError("more rows than can be combined")


def test_the_files_of_a_merge_count_as_one(tmp_path: Path) -> None:
    pieces = [StateFileEntry(f"m{'.' * (number > 0)}{number or ''}", 0, 0, 10, 0, 0) for number in range(20)]
    others = [StateFileEntry(str(number), 0, 0, 200, 0, 0) for number in range(FILES_IN_TIER - 1)]

    assert files_to_merge(pieces) == ()
    assert set(files_to_merge([*pieces, *others])) == {*pieces, *others}
