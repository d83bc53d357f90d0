"""A table of patterns finds for a text what trying them one by one finds."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.rules.search import backtracking, literal_database
from etl.tables.table_file import MappedTable, Match, Shape, TableCounts, build

VALUE = pa.schema([("value", pa.int64())])


def build_table(folder: Path, match: Match, patterns: Sequence[str | None]) -> tuple[MappedTable, TableCounts]:
    batch = pa.RecordBatch.from_pydict(
        {"k": pa.array(patterns, pa.string()), "value": pa.array(range(len(patterns)), pa.int64())}
    )
    built = build(folder / "t", lambda: [batch.slice(0, 2), batch.slice(2)], Shape(("k",), VALUE, match, True))
    return MappedTable(folder / "t"), built


def first(table: MappedTable, texts: Sequence[str | None], type_: pa.DataType | None = None) -> list[int | None]:
    found = table.first_rows(table.find([pa.array(texts, type_ or pa.string())]))
    values: list[int | None] = table.values("value", found).to_pylist()
    return values


def every(table: MappedTable, texts: Sequence[str | None]) -> list[list[int]]:
    counts, rows = table.find_all_rows([pa.array(texts, pa.string())])
    values = iter(table.values("value", rows).to_pylist())
    return [[next(values) for _ in range(count)] for count in counts.tolist()]


LIKES = ["abc", "ab%", "%bc", "%x%", "%lo_g%er", "a\\%b%", "_", "ab%", "%é%ü", "q%%"]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_the_first_pattern_that_fits_counts(tmp_path: Path, type_: pa.DataType) -> None:
    table, built = build_table(tmp_path, "like", LIKES)

    texts = ["abc", "abd", "xbc", "x", "lolong stringer", None, "a%bc", "a_bc", "Abc", "zéü", "", "q", "ABC"]

    assert first(table, texts, type_) == [0, 1, 2, 3, 4, None, 2, 2, 2, 8, None, 6, None]
    assert built == TableCounts(len(LIKES), len(LIKES), 0, 0)


def test_all_patterns_that_fit_are_found_in_the_order_of_the_table(tmp_path: Path) -> None:
    table, _ = build_table(tmp_path, "like", LIKES)

    assert every(table, ["abc", None, "no", "x", "q"]) == [[0, 1, 2, 7], [], [], [3, 6], [6, 9]]


def test_a_text_may_have_a_literal_many_times(tmp_path: Path) -> None:
    table, _ = build_table(tmp_path, "like", ["%abcdefgh%z", "%abcdefgh%"])

    assert every(table, ["abcdefgh" * 1000 + "z", "abcdefgh"]) == [[0, 1], [1]]


def test_regular_expressions_are_found(tmp_path: Path) -> None:
    table, built = build_table(
        tmp_path, "regex", ["ev[i1]l+", "^a+$", "(?i)FOO|barx", "(?<=x)secret", "[0-9]+", r"(\w)\1zz", "(?P<n>qq)"]
    )

    texts = ["evil foo", "aaa", "BARX", "xsecret", None, "zz", "12", "secret", "qq", "aazz"]

    assert first(table, texts) == [0, 1, 2, 3, None, None, 4, None, 6, 5]
    assert every(table, ["Foo ev1l 7"]) == [[0, 2, 4]]
    assert built.missing == 0


def test_bad_patterns_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, built = build_table(tmp_path, "regex", ["(", None, "abc", ""])

    assert first(table, ["abc", "("]) == [2, None]
    assert built == TableCounts(1, 1, 0, 3)
    assert "1 pattern cannot be read and is left out; the first: '(' is not a regular expression" in caplog.text


def test_patterns_without_a_literal_cause_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build_table(tmp_path, "like", ["%", "_%_", "%a%"])

    assert "2 of 3 patterns have no literal of two letters that every match contains" in caplog.text


@pytest.mark.parametrize("patterns", [[], ["("], ["%"]])
def test_a_table_may_hold_no_literal(tmp_path: Path, patterns: list[str]) -> None:
    table, _ = build_table(tmp_path, "regex", patterns)

    assert first(table, ["a", None]) == [None, None]
    assert every(table, []) == []


def test_a_slow_pattern_is_stopped_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in (("SECONDS", 0.001), ("FEW", 3), ("GRANTED", 0.005), ("SHARE", 0.0)):
        monkeypatch.setattr(backtracking, name, value)
    table, _ = build_table(tmp_path, "regex", ["(?<=q)(a|a)*(?=b)runaway", "runaway"])
    texts = ["q" + "a" * 200 + " runaway"] * 20

    with caplog.at_level(logging.WARNING):
        assert first(table, texts) == [1] * 20

    assert [record.getMessage().partition(": ")[2] for record in caplog.records if "too long" in record.getMessage()] == [
        "from now on each has 0.001 s",
        "it is tried on fewer while they come",
    ]
    assert caplog.text.count("takes longer than") == 1


def test_a_text_with_more_hits_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literal_database, "_FIRST_ROOM", 4)
    patterns = [f"%lit{n}%" for n in range(10)]
    table, _ = build_table(tmp_path, "like", patterns)

    assert every(table, ["".join(f"lit{n}" for n in range(10)), "lit3", "".join(f"lit{n}" for n in range(8))]) == [
        list(range(10)), [3], list(range(8)),
    ]  # fmt: skip


PIECES = st.sampled_from(["a", "b", "ab", "abc", "abcdefgh", "bcdefghi", "ABC", "é", "%", "_", "\\%", "\\_", "\n"])


@pytest.mark.slow
@settings(deadline=None, max_examples=60)  # kernels are compiled at their first call
@given(
    st.lists(st.lists(PIECES, min_size=1, max_size=6).map("".join), min_size=1, max_size=12),
    st.lists(st.lists(PIECES, max_size=8).map("".join), max_size=8),
)
def test_likes_are_what_arrow_says(tmp_path_factory: pytest.TempPathFactory, patterns: list[str], texts: list[str]) -> None:
    table, _ = build_table(tmp_path_factory.mktemp("t"), "like", patterns)
    column = pa.array(texts, pa.string())
    fits = [pc.match_like(column, pattern).to_pylist() for pattern in patterns]
    expected = [[n for n in range(len(patterns)) if fits[n][row]] for row in range(len(texts))]

    assert every(table, texts) == expected
    assert first(table, texts) == [(some or [None])[0] for some in expected]


PARTS = st.sampled_from(
    ["a", "b", "abc", "(?:ab|bc)", "[ab]", "a+", "(?i:AbC)", ".", "^", "$", "abcdefgh", "x?", "(ab)*", "abcd|bcda"]
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)  # kernels are compiled at their first call
@given(
    st.lists(st.lists(PARTS, min_size=1, max_size=5).map("".join), min_size=1, max_size=10),
    st.lists(st.lists(st.sampled_from(["a", "b", "ABC", "abc", "abcdefgh", "x", "\n"]), max_size=6).map("".join), max_size=8),
)
def test_regexes_are_what_re2_says(tmp_path_factory: pytest.TempPathFactory, patterns: list[str], texts: list[str]) -> None:
    table, _ = build_table(tmp_path_factory.mktemp("t"), "regex", patterns)
    column = pa.array(texts, pa.string())
    fits = [pc.match_substring_regex(column, pattern).to_pylist() for pattern in patterns]
    expected = [[n for n in range(len(patterns)) if fits[n][row]] for row in range(len(texts))]

    assert every(table, texts) == expected
    assert first(table, texts) == [(some or [None])[0] for some in expected]
