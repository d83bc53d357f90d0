"""YAML text → values and places."""

from __future__ import annotations

import pytest

from etl.config.document.parser import MAX_BYTES, parse, read
from etl.config.document.scalars import scalar_value


def test_scalars_follow_yaml_1_2() -> None:
    text = "[yes, on, true, 12, 0o17, 0x1f, 1.5, 1e3, 2026-01-01, 10:30, '5', ~, 1_000, .inf]"

    value = parse(text).value

    assert value == ["yes", "on", True, 12, 15, 31, 1.5, 1000.0, "2026-01-01", "10:30", "5", None, "1_000", ".inf"]


def test_keys_are_text() -> None:
    assert parse("on: 1\n5: 2\n").value == {"on": 1, "5": 2}


def test_locations_count_from_one() -> None:
    document = parse("a:\n  - b: 1\n    c: 'x'\n")

    assert document.locations["a", 0].value == (2, 5)
    assert document.locations["a", 0, "c"].key == (3, 5)
    assert document.locations["a", 0, "c"].value == (3, 8)


def test_an_empty_value_has_the_location_of_its_key() -> None:
    assert parse("a:\nb: 1\n").locations[("a",)].value == (1, 1)


def test_aliases_and_merge_keys() -> None:
    document = parse("base: &b {x: 1, y: 2}\none:\n  <<: *b\n  y: 3\ntwo: *b\nthree:\n  <<: [{z: 1}, {z: 2}]\n")

    assert document.flaws == []
    assert document.value["one"] == {"y": 3, "x": 1}
    assert document.value["two"] == {"x": 1, "y": 2}
    assert document.value["three"] == {"z": 1}


@pytest.mark.parametrize(
    ("text", "location", "code"),
    [
        ("a: 1\nb: 2\na: 3\n", (3, 1), "duplicate-key"),
        ("a: {b: 1, b: 2}\n", (1, 11), "duplicate-key"),
        ("? [1]\n: 2\n", (1, 3), "bad-key"),
        ("a: !x 1\n", (1, 4), "unknown-tag"),
        ("a: 1\n---\nb: 2\n", (2, 1), "several-documents"),
        ("a:\n\tb: 1\n", (2, 1), "yaml-syntax"),
        ("a: b: c\n", (1, 4), "yaml-syntax"),
        ("a: {p: ${X}}\n", (1, 8), "yaml-syntax"),
        ("a: *nothing\n", (1, 4), "yaml-syntax"),
        ("a: \x00\n", (1, 4), "yaml-syntax"),
        ("[" * 5000, (1, 1), "file-too-large"),
        ("- " * 5000 + "a", (1, 1), "file-too-large"),
        ("a: &a [*a]\n", (1, 1), "file-too-large"),
        ("a: &a {<<: *a}\n", (1, 1), "file-too-large"),
    ],
)
def test_flaws(text: str, location: tuple[int, int], code: str) -> None:
    assert [(flaw.location, flaw.code) for flaw in parse(text).flaws] == [(location, code)]


def test_tabs_and_unquoted_names_get_a_hint() -> None:
    assert "spaces" in str(parse("a:\n\tb: 1\n").flaws[0].hint)
    assert '"${X}"' in str(parse("a: {p: ${X}}\n").flaws[0].hint)


@pytest.mark.slow
def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]

    document = parse("\n".join(lines))

    assert [flaw.code for flaw in document.flaws] == ["file-too-large"]
    assert document.value is None


def test_bytes() -> None:
    assert [(f.location, f.code) for f in read(b"a: 1\nb: \xff\n").flaws] == [((2, 4), "not-utf8")]
    assert [f.code for f in read(b"#" * (MAX_BYTES + 1)).flaws] == ["file-too-large"]
    assert read("\ufeffa: ü\r\nb: 2\r\n".encode()).value == {"a": "ü", "b": 2}


def test_long_digits_stay_text() -> None:
    assert scalar_value("9" * 5000) == "9" * 5000
