"""State files: what is written is read, and a file that is not whole is refused."""

import resource
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_files import passing_folder

from etl.api import ComponentError
from etl.state import state_files
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import EventsByKey, rows_of_keys
from etl.state.manifest import StateFileEntry
from etl.state.row_files import open_entry
from etl.state.state_file_writer import StateFileWriter, write_state_file
from etl.state.state_files import DamagedStateError, StateFile, open_state_file

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2), st.integers(0, 5), st.none() | st.text(max_size=3)), min_size=1)


def _written(
    path: Path, rows: list[tuple[int, int, int, str | None]], text: pa.DataType | None = None, together: bool = True
) -> StateFile:
    """``together``: all parts in one record batch, as in small files."""
    parts, panes, hashes, texts = zip(*rows, strict=True)
    table = pa.table({HASH: pa.array(hashes, pa.uint64()), "text": pa.array(texts, pa.string()).cast(text or pa.string())})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("etl.state.state_file_writer.SMALL_FILE", len(rows) if together else 0)
        entry = write_state_file(path, table, np.array(parts), np.array(panes), durable=False)
    assert entry == StateFileEntry(path.name, min(panes), max(panes), len(rows), path.stat().st_size, entry.checksum)
    return open_entry(path.parent, entry)


def _read_whole(path: Path) -> None:
    file = StateFile(path)
    for part in file.parts:
        file.part(part)


@pytest.mark.slow
@settings(deadline=None)
@given(rows=ROWS, first=st.integers(-3, 3), end=st.integers(-3, 3), together=st.booleans())
def test_rows_are_read_by_part_and_pane(
    rows: list[tuple[int, int, int, str | None]], first: int, end: int, together: bool
) -> None:
    folder = passing_folder()
    file = _written(folder / "a", rows, together=together)

    assert (file.rows, file.parts) == (len(rows), sorted({row[0] for row in rows}))
    inside = [row[1] for row in rows if first <= row[1] < end]
    assert file.size_of_panes(lambda panes: (panes >= first) & (panes < end))[0] == len(inside)
    assert sum(map(len, file.slices(range(4), first, end))) == len(inside)
    for part in range(5):
        runs = list(file.runs(part, first, end))
        panes = sorted({row[1] for row in rows if row[0] == part})
        assert file.panes(part).tolist() == panes
        assert [run.pane for run in runs] == [pane for pane in panes if first <= pane < end]
        assert len(list(file.tables(part))) == len(panes)
        assert file.rows_of(part) == sum(row[0] == part for row in rows)
        for run in runs:
            expected = sorted((row for row in rows if row[:2] == (part, run.pane)), key=lambda row: row[2])
            assert run.rows.to_pylist() == [{HASH: row[2], "text": row[3]} for row in expected]


@pytest.mark.slow
@settings(deadline=None)
@given(
    rows=ROWS,
    requested=st.sets(st.integers(0, 5), min_size=1),
    first=st.integers(-3, 3),
    end=st.integers(-3, 3),
    small=st.booleans(),
    together=st.booleans(),
)
def test_rows_of_keys_are_found_by_their_hash(
    rows: list[tuple[int, int, int, str | None]],
    requested: set[int],
    first: int,
    end: int,
    small: bool,
    together: bool,
) -> None:
    folder = passing_folder()
    rows = [(part, pane, hash_, str(pane)) for part, pane, hash_, _ in rows]
    file = _written(folder / "a", rows, together=together)
    hashes = {part: np.array(sorted(requested), np.uint64) for part in range(5)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("etl.state.state_files.SMALL_FILE", len(rows) if small else 0)
        tables = list(file.rows_of_keys(hashes, first, end))

    found = [(row[HASH], row["text"]) for table in tables for row in table.to_pylist()]
    expected = [row[2:] for row in rows if first <= row[1] < end and row[2] in requested]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert [table.num_columns for table in tables] == [2] * bool(expected)
    assert [int(pane) for _, pane in found] == sorted(int(pane) for _, pane in found)


def test_rows_of_files_without_hashes_are_all_of_their_panes(tmp_path: Path) -> None:
    write_state_file(tmp_path / "a", pa.table({"n": [1, 2, 3]}), np.array([0, 0, 1]), np.array([4, 5, 5]), durable=False)

    tables = StateFile(tmp_path / "a").rows_of_keys({0: np.array([7], np.uint64), 1: np.array([7], np.uint64)}, 5, 6)

    assert [table.to_pylist() for table in tables] == [[{"n": 2}], [{"n": 3}]]


@pytest.mark.parametrize("type_", [pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_views_and_dictionaries_are_stored_as_values(type_: pa.DataType, tmp_path: Path) -> None:
    file = _written(tmp_path / "a", [(0, 0, 1, "a text that is longer than a view"), (1, 0, 2, None)], type_)

    assert [run.rows.column("text").to_pylist() for part in (0, 1) for run in file.runs(part)] == [
        ["a text that is longer than a view"],
        [None],
    ]
    assert file.schema.field("text").type == pa.string()


def test_the_schema_keeps_its_metadata_and_any_reader_of_arrow_can_read_the_rows(tmp_path: Path) -> None:
    table = pa.table({"n": [3, 1, 2]}).replace_schema_metadata({"seed": "7"})
    write_state_file(tmp_path / "a", table, np.array([1, 0, 1]), np.array([0, 0, 0]), durable=True)

    with pa.memory_map(str(tmp_path / "a")) as file:
        assert pa.ipc.open_stream(file).read_all().to_pydict() == {"n": [1, 3, 2]}
    assert StateFile(tmp_path / "a").schema.metadata == {b"seed": b"7"}


def test_a_file_without_rows_is_not_written(tmp_path: Path) -> None:
    none = np.empty(0, np.int64)

    assert write_state_file(tmp_path / "a", pa.table({"n": pa.array([], pa.int64())}), none, none, durable=True) is None
    assert not list(tmp_path.iterdir())


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), StateFileWriter(tmp_path / "a", pa.schema({"n": pa.int64()}), durable=False):
        raise RuntimeError

    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    rows = pa.table({"n": np.arange(1000)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    for size in (0, 100, 5000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(ComponentError, match=r"state file .*/a cannot be written: .*File too large"):
                write_state_file(tmp_path / "a", rows, np.zeros(1000, np.int64), np.zeros(1000, np.int64), durable=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert not list(tmp_path.iterdir())


def test_two_attempts_may_write_a_file_at_once(tmp_path: Path) -> None:
    schema, rows = pa.schema({"n": pa.int64()}), [pa.table({"n": [number]}) for number in (1, 2)]
    pane = np.zeros(1, np.int64)

    with StateFileWriter(tmp_path / "a", schema, durable=False) as second:
        with StateFileWriter(tmp_path / "a", schema, durable=False) as first:
            first.add(0, rows[0], pane)
            second.add(0, rows[1], pane)
        assert StateFile(tmp_path / "a").part(0).to_pydict() == {"n": [1]}

    assert StateFile(tmp_path / "a").part(0).to_pydict() == {"n": [2]}


def test_another_file_under_the_name_in_a_manifest_is_refused(tmp_path: Path) -> None:
    rows, zeros = pa.table({"n": [1]}), np.zeros(1, np.int64)
    known = write_state_file(tmp_path / "a", rows, zeros, zeros, durable=False)
    assert known is not None
    assert open_entry(tmp_path, known).rows == 1

    for others in ([2], [1, 2]):  # of the same size, and of another one
        write_state_file(
            tmp_path / "a", pa.table({"n": others}), np.resize(zeros, len(others)), np.resize(zeros, len(others)), durable=False
        )
        with pytest.raises(DamagedStateError, match="is another file than that of the manifest, which has 1 rows"):
            open_entry(tmp_path, known)


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    _written(tmp_path / "a", [(0, 0, 1, "x"), (3, 7, 2, None)])
    whole = (tmp_path / "a").read_bytes()

    for size in range(len(whole)):
        (tmp_path / "a").write_bytes(whole[:size])
        with pytest.raises(DamagedStateError, match=r"state file .*/a is .*; restore the state folder"):
            StateFile(tmp_path / "a")
    (tmp_path / "a").write_bytes(whole)
    assert StateFile(tmp_path / "a").rows == 2


@pytest.mark.parametrize("together", [True, False])
def test_a_file_with_any_byte_changed_is_refused(together: bool, tmp_path: Path) -> None:
    _written(tmp_path / "a", [(0, 0, 1, "x"), (3, 7, 2, None)], together=together)
    whole = bytearray((tmp_path / "a").read_bytes())

    for at in range(len(whole)):
        whole[at] ^= 1 << at % 8
        (tmp_path / "a").write_bytes(whole)
        with pytest.raises(DamagedStateError, match="is "):
            _read_whole(tmp_path / "a")
        whole[at] ^= 1 << at % 8
    (tmp_path / "a").write_bytes(whole)
    _read_whole(tmp_path / "a")


def test_files_that_were_swapped_are_refused_also_if_they_are_of_one_size(tmp_path: Path) -> None:
    for name, number in (("a", 1), ("b", 2)):
        _written(tmp_path / name, [(0, 0, number, "x")])
    first, second = ((tmp_path / name).read_bytes() for name in "ab")
    assert len(first) == len(second)
    (tmp_path / "a").write_bytes(second)
    (tmp_path / "b").write_bytes(first)

    for name in "ab":
        with pytest.raises(DamagedStateError, match=f"state file .*/{name} is damaged at its end, or was written under another"):
            open_state_file(tmp_path / name)


@pytest.mark.parametrize("version", [b"1", b"3"])
def test_a_file_of_another_version_is_refused(version: bytes, tmp_path: Path) -> None:
    _written(tmp_path / "a", [(0, 0, 1, "x")])
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-1] + version)

    message = rf"is of version '{version.decode()}' of the format, and this release reads version '2'; restore the state folder"
    with pytest.raises(DamagedStateError, match=message):
        StateFile(tmp_path / "a")


def test_files_that_may_not_be_read_or_written_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By messages of the system that root does not get."""
    _written(tmp_path / "a", [(0, 0, 1, "x")])

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.memory_map", refuse)
        with pytest.raises(ComponentError, match=r"state file .*/a cannot be read: .*Permission denied"):
            StateFile(tmp_path / "a")
    rows, zeros = pa.table({"n": [1]}), np.zeros(1, np.int64)
    for name in ("open", "mkdir"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, refuse)
            with pytest.raises(ComponentError, match=r"state file .*/b cannot be written: .*Permission denied"):
                write_state_file(tmp_path / "b", rows, zeros, zeros, durable=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("content", [None, b"", b"{}\n" * 40])
def test_a_foreign_file_is_refused(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a").write_bytes(content)

    with pytest.raises(DamagedStateError, match=r"is missing|is incomplete"):
        StateFile(tmp_path / "a")


def test_a_file_is_mapped_once_until_it_is_replaced_or_removed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    _written(path, [(0, 0, 1, "x")])
    first = open_state_file(path)
    assert open_state_file(path) is first

    _written(path, [(0, 0, 1, "x"), (0, 0, 2, "y")])
    assert (open_state_file(path).rows, first.rows) == (2, 1)

    path.unlink()
    with pytest.raises(DamagedStateError, match="is missing"):
        open_state_file(path)


def test_removed_files_are_unmapped(tmp_path: Path) -> None:
    for name in "ab":
        _written(tmp_path / name, [(0, 0, 1, "x")])
        open_state_file(tmp_path / name)
    (tmp_path / "a").unlink()
    _written(tmp_path / "c", [(0, 0, 1, "x")])

    open_state_file(tmp_path / "c")

    assert state_files._opened[tmp_path].keys() == {"b", "c"}


def test_files_that_were_removed_with_their_folder_are_unmapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "_opened", {})
    for number in range(100):
        _written(tmp_path / str(number) / "a", [(0, 0, 1, "x")])
        open_state_file(tmp_path / str(number) / "a")
        if number > 20:
            shutil.rmtree(tmp_path / str(number))

    assert 21 < len(state_files._opened) < 64


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a mapping is read in /proc, which Linux has")
def test_the_memory_of_a_part_is_given_back_and_its_rows_can_be_read_again(tmp_path: Path) -> None:
    rows = 1 << 18
    table = pa.table({HASH: pa.array(np.arange(rows), pa.uint64())})
    write_state_file(tmp_path / "a", table, np.zeros(rows, np.int64), np.zeros(rows, np.int64), durable=False)
    file = StateFile(tmp_path / "a")

    part = file.part(0)
    checked = _resident(tmp_path / "a")
    total = part.column(HASH).to_numpy().sum()
    used = _resident(tmp_path / "a")
    file.release(0)

    assert checked < 200 < 2_000 < used
    assert _resident(tmp_path / "a") < 200
    assert part.column(HASH).to_numpy().sum() == total == rows * (rows - 1) // 2


def _resident(path: Path) -> int:
    """KB of a mapped file that are in memory for this process."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    next(line for line in lines if line.endswith(str(path)))
    return int(next(line for line in lines if line.startswith("Rss:")).split()[1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep pages that files have")
def test_look_ups_in_large_files_give_their_memory_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hashes as of `window`, and by runs as of `dedupe`: without a bound they map most of the file."""
    rows, path = 1 << 20, tmp_path / "a"
    hashes, zeros = np.arange(rows, dtype=np.uint64) << np.uint64(44), np.zeros(rows, np.int64)
    write_state_file(path, pa.table({HASH: hashes, HASH2: zeros.view(np.uint64)}), zeros, zeros, durable=False)
    file, looked_up = open_state_file(path), hashes[::512]
    keys = EventsByKey.of(np.array([looked_up, 0 * looked_up]), np.zeros(len(looked_up), np.int64))
    monkeypatch.setattr(state_files, "_MEASURED_TOGETHER", 1)

    resident, found = [], []
    for max_bytes in (1 << 40, 0):
        monkeypatch.setattr(state_files, "MAPPED_BYTES", max_bytes)
        found += [sum(len(rows) for rows in file.rows_of_keys({0: looked_up}))]
        resident += [_resident(path)]
        found += [sum(len(rows) for _, _, rows in rows_of_keys(keys, [*file.tables(0)]))]
        resident += [_resident(path)]

    assert found == [len(looked_up)] * 4
    assert min(resident[:2]) > 8_000
    assert max(resident[2:]) < 200


def test_memory_is_measured_once_for_many_look_ups_in_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each measurement reads a file of the system, and a micro-batch looks up rows in each part of each file."""
    rows, path, measured = 1 << 17, tmp_path / "a", []
    hashes, zeros = np.arange(rows, dtype=np.uint64) << np.uint64(47), np.zeros(rows, np.int64)
    write_state_file(path, pa.table({HASH: hashes, HASH2: zeros.view(np.uint64)}), zeros, zeros, durable=False)
    file = open_state_file(path)
    monkeypatch.setattr(state_files, "mapped_bytes", lambda: measured.append(1) or 0)

    for _ in range(64):
        assert sum(map(len, file.rows_of_keys({0: hashes[:1]}))) == 1

    assert 3 <= len(measured) <= 5  # 64 look-ups in a part of 2 MB, 32 MB for each measurement
