"""Events get what a table knows about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.lookup_tables.inline import InlineTable
from etl.api import OFFSET, ComponentError, CountingOperator, Outcome, visible
from etl.steps.lookup import Lookup, tables_of
from etl.tables.section_file import SectionFile
from etl.tables.table_store import LiveTable, has_usable_version, refresh

INTEL = [
    {"ip": "192.0.2.7", "category": "scan", "score": 90},
    {"ip": "192.0.2.7", "category": "tor", "score": 5},
    {"ip": "203.0.113.9", "score": 7},
]


def table(rows: Sequence[Mapping[str, Any]] = INTEL, **options: Any) -> InlineTable:
    return InlineTable.model_validate({"key": "ip", "columns": {"score": "int"}, "rows": rows, **options})


def step(of: InlineTable | None = None, **options: Any) -> Lookup:
    given = {"type": "lookup", "table": "t", "on": "ip", "add": {"kind": "category", "score": "score"}, **options}
    return Lookup.model_validate(given).with_tables({"t": of or table()})


def looked_up(one: Lookup, columns: Mapping[str, Any] | None = None) -> Outcome:
    given = columns or {"ip": pa.array(["203.0.113.9", "10.0.0.1", "192.0.2.7", None])}
    batch = pa.RecordBatch.from_pydict({**given, OFFSET: pa.array(range(len(next(iter(given.values())))))})
    outcome = one.open(visible(batch.schema))(batch)
    assert visible(outcome.events.schema) == one.fields(visible(batch.schema))
    return outcome


def events(one: Lookup, columns: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in looked_up(one, columns).events.drop_columns([OFFSET]).to_pylist()]


def test_the_first_row_is_added() -> None:
    assert events(step()) == [
        ("203.0.113.9", None, 7),
        ("10.0.0.1", None, None),
        ("192.0.2.7", "scan", 90),
        (None, None, None),
    ]


def test_texts_may_come_as_views() -> None:
    assert events(step(add={"kind": "category"}), {"ip": pa.array(["192.0.2.7", "x"], pa.string_view())}) == [
        ("192.0.2.7", "scan"),
        ("x", None),
    ]


def test_an_event_for_each_row() -> None:
    found = looked_up(step(several="all", defaults={"score": -1})).events

    assert found.column(OFFSET).to_pylist() == [0, 1, 2, 2, 3]
    assert found.column("kind").to_pylist() == [None, None, "scan", "tor", None]
    assert found.column("score").to_pylist() == [7, -1, 90, 5, -1]


def test_a_list_of_all_values() -> None:
    assert [row[1:] for row in events(step(several="list"))] == [
        ([None], [7]),
        (None, None),
        (["scan", "tor"], [90, 5]),
        (None, None),
    ]


def test_defaults_stand_where_the_table_knows_nothing() -> None:
    assert [row[1:] for row in events(step(defaults={"kind": "unknown", "score": 0}))] == [
        (None, 7),
        ("unknown", 0),
        ("scan", 90),
        ("unknown", 0),
    ]


def test_a_miss_can_be_dropped() -> None:
    outcome = looked_up(step(miss="drop"))

    assert outcome.events.column("ip").to_pylist() == ["203.0.113.9", "192.0.2.7"]
    assert outcome.rejects == ()


def test_a_miss_can_be_a_dead_letter() -> None:
    outcome = looked_up(step(miss="dead_letter"))

    (rejects,) = outcome.rejects
    assert rejects.code == "lookup-miss"
    assert list(rejects.reasons.to_pylist()) == ["table 't' has no row for 10.0.0.1", "table 't' has no row for null"]
    assert outcome.events.num_rows == 2


@pytest.mark.parametrize(
    ("match", "keys", "field", "found"),
    [
        ("cidr", ["10.0.0.0/8", "10.1.0.0/16"], ["10.1.2.3", "10.2.0.1", "11.0.0.1"], [1, 0, None]),
        ("prefix", ["/a", "/a/b"], ["/a/b/c", "/ab", "b"], [1, 0, None]),
        ("suffix", ["a.com", "b.a.com"], ["x.b.a.com", "a.com", "ba.com"], [1, 0, None]),
        ("like", ["%.exe", "C:%"], ["C:/a.exe", "C:/a", "D:/a"], [0, 1, None]),
        ("regex", ["curl/[0-9]", "(?i)CURL"], ["curl/7", "Curl", "wget"], [0, 1, None]),
    ],
)
def test_a_match_need_not_be_exact(match: str, keys: list[str], field: list[str], found: list[int | None]) -> None:
    rows = [{"ip": key, "score": n} for n, key in enumerate(keys)]

    assert [row[1] for row in events(step(table(rows), match=match, add={"score": "score"}), {"ip": pa.array(field)})] == found


@pytest.mark.parametrize(("several", "scores"), [("list", [[0, 1], None]), ("all", [0, 1, None])])
def test_all_patterns_that_fit_count(several: str, scores: list[Any]) -> None:
    rows = [{"ip": key, "score": n} for n, key in enumerate(["%.exe", "C:%"])]
    one = step(table(rows), match="like", several=several, add={"score": "score"})

    assert [score for _, score in events(one, {"ip": pa.array(["C:/a.exe", "D:/a"])})] == scores


def test_an_event_that_fits_no_pattern_is_a_miss() -> None:
    outcome = looked_up(step(table([{"ip": "%x%", "score": 1}]), match="like", miss="dead_letter", add={"score": "score"}))

    assert [rejects.code for rejects in outcome.rejects] == ["lookup-miss"]
    assert outcome.events.num_rows == 0


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-200], "is incomplete: remove it"),
        (lambda data: data.replace(b'{"', b"{}", 1), "is damaged: remove it"),
        (lambda data: data.replace(b"sluice-table ", b"sluice-table 9", 1), "is a table file of another format: remove it"),
        (lambda data: b"PAR1" + data, "is not a table file: remove it"),
    ],
)
def test_a_file_that_is_damaged_or_of_another_format_is_built_again(
    tmp_path: Path, damage: Callable[[bytes], bytes], reason: str
) -> None:
    (expected,) = tables_of([step()]).values()
    made, _ = refresh(expected, tmp_path)
    file = tmp_path / expected.id / made.file
    file.write_bytes(damage(file.read_bytes()))

    with pytest.raises(ComponentError, match=reason):
        LiveTable(tmp_path / expected.id).newest()
    again, new = refresh(expected, tmp_path)

    assert new
    assert again.file != made.file
    assert LiveTable(tmp_path / expected.id).newest().find([pa.array(["192.0.2.7"])]).tolist() != [-1]


def test_a_file_in_which_a_byte_was_changed_is_built_again(tmp_path: Path) -> None:
    patterns = step(table([{"ip": "%.exe%", "score": 1}, {"ip": "C:%", "score": 2}]), match="like", add={"score": "score"})
    (expected,) = tables_of([patterns]).values()
    made, _ = refresh(expected, tmp_path)
    file = tmp_path / expected.id / made.file
    data = bytearray(file.read_bytes())
    data[data.rindex(b".exe")] ^= 1
    file.write_bytes(data)

    with pytest.raises(ComponentError, match=r"is damaged: the checksum of 'bytes.data' does not fit: remove it, and the next"):
        SectionFile(file).verify()
    usable = has_usable_version(tmp_path / expected.id)
    _, new = refresh(expected, tmp_path)

    assert (usable, new, has_usable_version(tmp_path / expected.id)) == (False, True, True)
    assert LiveTable(tmp_path / expected.id).newest().find([pa.array(["a.exe", "C:", "x"])]).tolist() == [0, 1, -1]


def test_ranges_hold_values() -> None:
    rows = [{"low": 0, "high": 9, "word": "small"}, {"low": 5, "high": 100, "word": "large"}]
    ports = table(rows, key=["low", "high"], columns={"low": "int", "high": "int"})

    found = events(
        step(ports, match="range", on="port", add={"word": "word"}), {"port": pa.array([0, 5, 100, 101, None], pa.int64())}
    )

    assert [word for _, word in found] == ["small", "large", "large", None, None]


def test_several_fields_are_one_key() -> None:
    rows = [{"user": "a", "host": "x", "score": 1}, {"user": "a", "host": "y", "score": 2}]
    one = step(table(rows, key=["user", "host"]), on=["u", "h"], add={"score": "score"})

    assert [row[2] for row in events(one, {"u": pa.array(["a", "a", "b"]), "h": pa.array(["y", "x", "x"])})] == [2, 1, None]


@pytest.mark.parametrize(
    ("options", "of", "codes"),
    [
        ({"on": "no"}, {}, ["unknown-field"]),
        ({"add": {"x": "no"}}, {}, ["unknown-column"]),
        ({"add": {"ip": "category"}, "replaces": []}, {}, ["name-conflict"]),
        ({"add": {"ip": "category"}, "replaces": ["ip"]}, {}, []),
        ({"replaces": ["kinds"]}, {}, ["unknown-field"]),
        ({"defaults": {"no": 1}}, {}, ["unknown-field"]),
        ({"on": ["ip", "ip"]}, {}, ["wrong-key"]),
        ({"match": "range"}, {}, ["wrong-key"]),
        ({"match": "cidr", "several": "all"}, {}, ["useless-option"]),
        ({"defaults": {"score": 1}, "miss": "drop"}, {}, ["useless-option"]),
        ({}, {"columns": {"ip": "int"}}, ["wrong-type"]),
        ({"defaults": {"score": "x"}}, {}, ["wrong-type"]),
        ({}, {}, []),
    ],
)
def test_mistakes_are_found(options: dict[str, Any], of: dict[str, Any], codes: list[str]) -> None:
    findings = list(step(table(**of), **options).check(pa.schema([("ip", pa.string())])))

    assert [finding.code for finding in findings] == codes


@pytest.mark.parametrize("match", ["cidr", "prefix", "suffix", "like", "regex"])
def test_only_texts_are_compared_with_texts(match: str) -> None:
    one = step(table(columns={"ip": "int"}), match=match, add={"kind": "category"})

    assert [finding.code for finding in one.check(pa.schema([("ip", pa.int32())]))] == ["wrong-type"]


def test_a_table_is_built_once_and_replaced_when_it_changes(tmp_path: Path) -> None:
    (expected,) = tables_of([step(), step(), step(add={"kind": "category", "score": "score"}, miss="drop")]).values()

    _, new = refresh(expected, tmp_path)
    _, again = refresh(expected, tmp_path)

    assert (new, again) == (True, False)
    assert LiveTable(tmp_path / expected.id).newest().find([pa.array(["192.0.2.7", "x"])]).tolist() != [-1, -1]


@pytest.mark.parametrize("miss", ["keep", "drop", "dead_letter"])
def test_events_that_are_found_are_counted(miss: str) -> None:
    # given
    batch = pa.RecordBatch.from_pydict({"ip": ["192.0.2.7", "10.0.0.1", "192.0.2.7"], OFFSET: [0, 1, 2]})
    run = step(miss=miss).open(visible(batch.schema))
    assert isinstance(run, CountingOperator)

    # when
    run(batch)
    run.preview(batch)

    # then
    assert run.measures().sums == {"found": {"t": 2}, "missed": {"t": 1}}


@pytest.mark.parametrize(
    ("match", "rows", "reason"),
    [
        ("exact", [{"ip": "a"}, {"score": 1}, {"ip": ""}], "ip is null"),
        (
            "cidr",
            [{"ip": "10.0.0.0/8"}, {"ip": "10.0.0.0/99\x07" + "x" * 99}],
            f"ip is '10.0.0.0/99\\x07{'x' * 48}…', which is not an address or network",
        ),
        ("regex", [{"ip": "a"}, {"ip": "(a"}], "ip is '(a', which is not a pattern"),
    ],
)
def test_the_first_row_without_a_key_is_told(tmp_path: Path, match: str, rows: list[dict[str, Any]], reason: str) -> None:
    (expected,) = tables_of([step(table(rows), match=match, add={"score": "score"})]).values()

    built, _ = refresh(expected, tmp_path)

    assert (built.what.first, built.what.first_row) == (reason, 1)


def test_a_range_that_ends_before_it_begins_is_told(tmp_path: Path) -> None:
    ranges = table([{"a": 1, "b": 2}, {"a": 9, "b": 3}], key=["a", "b"], columns={"a": "int", "b": "int"})
    (expected,) = tables_of([step(ranges, match="range", on="port", add={"a": "a"})]).values()

    built, _ = refresh(expected, tmp_path)

    assert built.what.first == "a is 9, b is 3, so that it ends before it begins"


def test_explain_says_how_a_table_is_asked() -> None:
    schema = pa.schema([("ip", pa.string())])

    assert list(step(match="cidr", miss="drop").notes(schema)) == [
        "ip looked up in table 't' (key ip), match cidr; a miss is dropped"
    ]
