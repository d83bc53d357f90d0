"""A table finds every key that went into it, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.tables.exact_index import ExactIndex
from etl.tables.table_file import MappedTable, Match, Shape, TableCounts, build

VALUE = pa.schema([("value", pa.int64())])


def build_table(
    folder: Path, keys: Sequence[pa.Array], several: bool = False, size: int = 1000
) -> tuple[MappedTable, TableCounts]:
    names = [f"k{n}" for n in range(len(keys))]
    whole = pa.RecordBatch.from_arrays([*keys, pa.array(range(len(keys[0])), pa.int64())], names=[*names, "value"])
    path = folder / "t.table"
    pieces = lambda: (whole.slice(at, size) for at in range(0, len(whole), size))  # noqa: E731
    built = build(path, pieces, Shape(tuple(names), VALUE, several=several))
    return MappedTable(path), built


def looked_up(table: MappedTable, *keys: pa.Array) -> list[Any]:
    return table.values("value", table.first_rows(table.find(keys))).to_pylist()


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_addresses_are_found_as_numbers(tmp_path: Path, type_: pa.DataType) -> None:
    table, built = build_table(tmp_path, [pa.array(["10.0.0.1", "255.255.255.255", "0.0.0.0", "192.0.2.7"])])

    expected = pa.array(
        ["192.0.2.7", "10.0.0.2", "010.0.0.1", "10.0.0.1 ", None, "", "0.0.0.0", "255.255.255.255", "10.0.0.1"], type_
    )

    assert looked_up(table, expected) == [3, None, None, None, None, None, 2, 1, 0]
    assert table._index.form == "address"
    assert built == TableCounts(4, 4, 0, 0)


def test_a_table_with_other_keys_than_addresses_is_read_again_as_texts(tmp_path: Path) -> None:
    table, _ = build_table(tmp_path, [pa.array([*(f"10.0.{n >> 8}.{n & 255}" for n in range(3000)), "host"])], size=100)

    assert looked_up(table, pa.array(["10.0.3.1", "host", "10.9.0.0"])) == [769, 3000, None]
    assert table._index.form == "text"


@pytest.mark.parametrize("type_", [pa.int8(), pa.int32(), pa.int64(), pa.uint32()])
def test_whole_numbers_are_keys(tmp_path: Path, type_: pa.DataType) -> None:
    table, _ = build_table(tmp_path, [pa.array([7, 0, 100], type_)])

    assert looked_up(table, pa.array([100, 7, 8, None, -1], pa.int64())) == [2, 0, None, None, None]


def test_large_and_negative_numbers_are_keys(tmp_path: Path) -> None:
    table, _ = build_table(tmp_path, [pa.array([-1, 1 << 40, -(1 << 63)], pa.int64())])

    assert looked_up(table, pa.array([1 << 40, -(1 << 63), -1, 1])) == [1, 2, 0, None]


def test_the_first_row_of_a_key_counts(tmp_path: Path) -> None:
    table, built = build_table(tmp_path, [pa.array(["a", "b", "a", "a", "b", "c"])])

    assert looked_up(table, pa.array(["a", "b", "c"])) == [0, 1, 5]
    assert (built.keys, built.rows, built.again) == (3, 3, 3)


@pytest.mark.parametrize(
    "keys", [["a", "b", "a", "a", "b", "c"], ["1.1.1.1", "2.2.2.2", "1.1.1.1", "1.1.1.1", "2.2.2.2", "3.3.3.3"]]
)
def test_all_rows_of_a_key_can_be_kept(tmp_path: Path, keys: list[str]) -> None:
    table, built = build_table(tmp_path, [pa.array(keys)], several=True)

    found = table.find([pa.array([keys[5], "none", keys[0], keys[1]])])
    counts, rows = table.all_rows(found)

    assert counts.tolist() == [1, 0, 3, 2]
    assert table.values("value", rows).to_pylist() == [5, 0, 2, 3, 1, 4]
    assert table.values("value", table.first_rows(found)).to_pylist() == [5, None, 0, 1]
    assert (built.keys, built.rows, built.again) == (3, 6, 3)


def test_rows_without_a_key_are_left_out(tmp_path: Path) -> None:
    table, built = build_table(tmp_path, [pa.array(["a", None, "", "b"])])

    assert looked_up(table, pa.array(["a", "", None, "b"])) == [0, None, None, 3]
    assert built.missing == 2


def test_several_fields_are_one_key(tmp_path: Path) -> None:
    users, hosts = ["a\x1f", "a", "x"], ["b", "\x1fb", "y"]
    table, built = build_table(tmp_path, [pa.array(users), pa.array(hosts)])

    assert looked_up(table, pa.array([*users, "x", None]), pa.array([*hosts, "z", "y"])) == [0, 1, 2, None, None]
    assert built.again == 0


def test_an_empty_table_finds_nothing(tmp_path: Path) -> None:
    table, built = build_table(tmp_path, [pa.array([], pa.string())])

    assert looked_up(table, pa.array(["a", None])) == [None, None]
    assert built.rows == 0


def test_texts_with_the_same_hash_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import etl.tables.exact_index as exact

    monkeypatch.setattr(exact, "hash_texts", lambda address, length, hashes: hashes.fill(42))
    keys = ["b", "a", "b", "c", "a"]

    gathered = exact.KeyCollector("text")
    gathered.add([pa.array(keys)])
    arrays, order, again = gathered.sections(several=True)

    assert [keys[row] for row in order] == ["a", "a", "b", "b", "c"]
    assert (arrays["rows"].tolist(), again) == ([0, 2, 4, 5], 2)


def longest(folder: Path, match: Match, keys: list[str], expected: Sequence[str | None]) -> list[str | None]:
    batch = pa.RecordBatch.from_arrays([pa.array(keys, pa.string())], names=["k"])
    build(folder / "t", lambda: [batch], Shape(("k",), batch.schema, match))
    table = MappedTable(folder / "t")
    return table.values("k", table.first_rows(table.find([pa.array(expected, pa.string_view())]))).to_pylist()


def test_the_longest_beginning_is_found(tmp_path: Path) -> None:
    keys = ["/api", "/api/v2/", "/", "10.0.0.1"]

    found = longest(tmp_path, "prefix", keys, ["/api/v1", "/api/v2/x", "/other", "api", "", None, "/api", "10.0.0.12"])

    assert found == ["/api", "/api/v2/", "/", None, None, None, "/api", "10.0.0.1"]


def test_the_longest_ending_of_whole_labels_is_found(tmp_path: Path) -> None:
    keys = ["evil.com", "a.evil.com", ".exe", "Case.Org."]

    expected = ["evil.com", "www.evil.com", "x.a.evil.com", "notevil.com", "run.exe", "", None, "com", "."]

    assert longest(tmp_path, "suffix", keys, expected) == [
        "evil.com", "evil.com", "a.evil.com", None, ".exe", None, None, None, None,
    ]  # fmt: skip


def test_names_of_domains_have_no_case_and_may_end_with_the_root(tmp_path: Path) -> None:
    keys = ["evil.com", "Case.Org."]

    found = longest(
        tmp_path, "suffix", keys, ["WWW.Evil.COM", "evil.com.", "x.case.org", "CASE.ORG.", "é.evil.com", "evil.com.x"]
    )

    assert found == ["evil.com", "evil.com", "Case.Org.", "Case.Org.", "evil.com", None]


@pytest.mark.slow
@settings(deadline=None)  # kernels are compiled at their first call
@given(st.lists(st.text(max_size=20), unique=True, max_size=60), st.lists(st.text(max_size=20), max_size=20))
def test_every_key_is_found_and_no_other(tmp_path_factory: pytest.TempPathFactory, keys: list[str], others: list[str]) -> None:
    table, _ = build_table(tmp_path_factory.mktemp("t"), [pa.array(keys, pa.string())])
    rows = {key: row for row, key in enumerate(keys) if key}

    expected = [*keys, *others, *(key + "x" for key in keys)]

    assert looked_up(table, pa.array(expected, pa.string_view())) == [rows.get(key) for key in expected]


@pytest.mark.slow
@settings(deadline=None)  # kernels are compiled at their first call
@given(st.lists(st.one_of(st.none(), st.integers(0, 300).map(str), st.text(max_size=3)), min_size=1, max_size=300), st.data())
def test_values_come_back_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, values: list[str | None], data: st.DataObject
) -> None:
    column = pa.array(values, pa.string())
    batch = pa.RecordBatch.from_arrays([pa.array([f"k{n}" for n in range(len(values))]), column], names=["k", "v"])
    path = tmp_path_factory.mktemp("t") / "t"
    build(path, lambda: [batch], Shape(("k",), pa.schema([("v", pa.string())])))
    rows = data.draw(st.lists(st.integers(-1, len(values) - 1), max_size=20))

    table = MappedTable(path)
    found = table.first_rows(table.find([pa.array([f"k{row}" for row in rows])]))

    assert table.values("v", found).to_pylist() == [values[row] if row >= 0 else None for row in rows]


def test_an_index_needs_no_other_file(tmp_path: Path) -> None:
    table, _ = build_table(tmp_path, [pa.array(["a"])])

    (tmp_path / "t.table").unlink()

    assert looked_up(table, pa.array(["a", "b"])) == [0, None]
    assert isinstance(table._index, ExactIndex)
    assert table.find([pa.array(["a"])]).dtype == np.int64


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)

    with pytest.raises(OSError, match="No space left"):
        build_table(tmp_path, [pa.array(["a"])])

    assert list(tmp_path.iterdir()) == []
