"""A table that is read by its changes is, at any time, what it would be if it were read whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import Changes, ComponentError, LookupTable
from etl.tables import incremental_reading
from etl.tables.table_file import Match, Shape
from etl.tables.table_store import LiveTable, TableRequest, refresh

Row = dict[str, Any]


class Versioned(LookupTable):
    """Rows that each have the number of their last change."""

    type: Literal["versioned"] = "versioned"
    rows: ClassVar[list[Row]] = []
    asked: ClassVar[list[str | int | None]] = []
    """The mark of each reading, None of whole ones."""
    message: ClassVar[Changes] = Changes(("ip",), "gone")

    def column(self, name: str) -> pa.DataType:
        return {"gone": pa.bool_(), "score": pa.int64()}.get(name, pa.string())

    def changes(self) -> Changes | None:
        return self.message

    def mark(self) -> str | int | None:
        return max((row["at"] for row in self.rows), default=0)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self.asked.append(None)
        yield from self._batches(columns, self.rows)

    def read_since(self, columns: Sequence[str], mark: str | int | None) -> Iterator[pa.RecordBatch]:
        self.asked.append(mark)
        assert isinstance(mark, int)
        yield from self._batches(columns, [row for row in self.rows if row["at"] > mark])

    def _batches(self, columns: Sequence[str], rows: list[Row]) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(rows), 3):
            some = rows[at : at + 3]
            arrays = [pa.array([row[name] for row in some], self.column(name)) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


@pytest.fixture
def versioned() -> Iterator[type[Versioned]]:
    yield Versioned
    Versioned.rows, Versioned.asked, Versioned.message = [], [], Changes(("ip",), "gone")


def table_request(match: Match = "exact") -> TableRequest:
    return TableRequest("t", Versioned.model_validate({"key": "ip"}), Shape(("ip",), pa.schema([("score", pa.int64())]), match))


def row(ip: str, score: int, at: int, gone: bool | None = None) -> Row:
    return {"ip": ip, "score": score, "at": at, "gone": gone}


def scores(folder: Path, one: TableRequest, *keys: str) -> list[int | None]:
    mapped = LiveTable(folder / one.id).newest()
    found: list[int | None] = mapped.values("score", mapped.first_rows(mapped.find([pa.array(keys, pa.string())]))).to_pylist()
    return found


def test_only_what_changed_is_read(tmp_path: Path, versioned: type[Versioned]) -> None:
    one = table_request()
    versioned.rows = [row("10.0.0.1", 1, 1), row("10.0.0.2", 2, 2), row("10.0.0.3", 3, 3), row("10.0.0.4", 4, 3, True)]
    refresh(one, tmp_path)

    versioned.rows[0:2] = [row("10.0.0.1", 10, 5), row("10.0.0.2", 2, 6, True)]
    versioned.rows[2]["score"] = 33  # in silence: nobody is told
    versioned.rows.append(row("10.0.0.5", 5, 7))
    current, new = refresh(one, tmp_path)

    assert (new, current.what.rows, versioned.asked) == (True, 3, [None, 3])
    assert current.since is not None
    assert (current.since.mark, current.since.read) == (7, 3)
    keys = [f"10.0.0.{n}" for n in range(1, 6)]
    assert scores(tmp_path, one, *keys) == [10, None, 3, None, 5]
    assert {path.suffix for path in (tmp_path / one.id).iterdir()} == {".table", ".rows", ".json"}
    assert len(list((tmp_path / one.id).glob("*.rows"))) == 1


def test_without_changes_nothing_is_built(tmp_path: Path, versioned: type[Versioned]) -> None:
    one = table_request()
    versioned.rows = [row("10.0.0.1", 1, 1)]
    first, _ = refresh(one, tmp_path)

    assert refresh(one, tmp_path) == (first, False)


@pytest.mark.parametrize("match", ["cidr", "like"])
def test_any_kind_of_key_may_change(tmp_path: Path, versioned: type[Versioned], match: Match) -> None:
    one = table_request(match)
    versioned.rows = [row("10.0.0.1", 1, 1), row("10.0.0.2", 2, 2)]
    refresh(one, tmp_path)

    versioned.rows = [row("10.0.0.1", 10, 3), row("10.0.0.2", 2, 2)]
    refresh(one, tmp_path)

    assert scores(tmp_path, one, "10.0.0.1", "10.0.0.2") == [10, 2]


def test_address_keys_that_become_texts_are_merged(tmp_path: Path, versioned: type[Versioned]) -> None:
    one = table_request()
    versioned.rows = [row(f"10.0.0.{n}", n, 1) for n in range(20)]
    refresh(one, tmp_path)

    versioned.rows.append(row("host", 99, 2))
    refresh(one, tmp_path)
    versioned.rows.append(row("other", 98, 3))
    refresh(one, tmp_path)

    assert scores(tmp_path, one, "10.0.0.7", "host", "other") == [7, 99, 98]


def test_it_is_read_whole_when_that_is_due(tmp_path: Path, versioned: type[Versioned]) -> None:
    one = table_request()
    versioned.message = Changes(("ip",), "gone", timedelta(0))
    versioned.rows = [row("10.0.0.1", 1, 1), row("10.0.0.2", 2, 2)]
    refresh(one, tmp_path)

    del versioned.rows[0]
    refresh(one, tmp_path)

    assert versioned.asked == [None, None]
    assert scores(tmp_path, one, "10.0.0.1", "10.0.0.2") == [None, 2]


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-8])])
def test_without_the_rows_of_before_it_is_read_whole(tmp_path: Path, versioned: type[Versioned], harm: Any) -> None:
    one = table_request()
    versioned.rows = [row("10.0.0.1", 1, 1)]
    refresh(one, tmp_path)
    harm(tmp_path / one.id / "000001.rows")

    refresh(one, tmp_path)

    assert versioned.asked == [None, None]


def test_a_failed_reading_keeps_what_is_in_use(
    tmp_path: Path, versioned: type[Versioned], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = table_request()
    versioned.rows = [row("10.0.0.1", 1, 1)]
    refresh(one, tmp_path)
    versioned.rows = [row("10.0.0.1", 2, 2)]

    with monkeypatch.context() as patch:
        patch.setattr(Versioned, "read_since", lambda *_: (_ for _ in ()).throw(ComponentError("away")))
        with pytest.raises(ComponentError, match="away"):
            refresh(one, tmp_path)
    assert scores(tmp_path, one, "10.0.0.1") == [1]
    refresh(one, tmp_path)

    assert scores(tmp_path, one, "10.0.0.1") == [2]


def test_a_warning_says_that_rows_share_keys(
    tmp_path: Path, versioned: type[Versioned], caplog: pytest.LogCaptureFixture
) -> None:
    versioned.rows = [row("10.0.0.1", 1, 1), row("10.0.0.1", 2, 1)]

    refresh(table_request(), tmp_path)

    assert "tell them apart by `id`" in caplog.text


STEPS = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "b", "10.0.0.1", "10.0.0.2", "c"]), st.integers(0, 9), st.booleans()), max_size=4),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(STEPS)
def test_a_table_read_by_its_changes_equals_the_whole_table(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[str, int, bool]]]
) -> None:
    folder, one, known = tmp_path_factory.mktemp("tables"), table_request(), dict[str, Row]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental_reading, "_ROWS_IN_BATCH", 2)
        patch.setattr(incremental_reading, "_BATCHES_AT_ONCE", 2)
        for number, changed in enumerate(steps, 1):
            known |= {ip: row(ip, score, number, gone) for ip, score, gone in changed}
            patch.setattr(Versioned, "rows", list(known.values()))
            refresh(one, folder)
            expected = [known[ip]["score"] if ip in known and not known[ip]["gone"] else None for ip in ("a", "b", "10.0.0.1")]
            assert scores(folder, one, "a", "b", "10.0.0.1") == expected
