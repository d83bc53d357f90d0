"""Where lines stop to match a pattern."""

from __future__ import annotations

import pytest

from etl.inference.match_stops import Grok, MatchStop

PATTERN = r"sshd\[%{POSINT:pid:int}\]: Failed password for %{USERNAME:user} from %{IP:source.ip}"


def stop(pattern: str, line: str) -> MatchStop:
    grok = Grok(pattern, {})
    parsed = grok.parse([line])
    assert parsed.failed is not None
    assert parsed.failed.to_pylist() == [True]
    return grok.stops([line])[0]


@pytest.mark.parametrize(
    ("line", "column", "wants"),
    [
        ("gate sshd[12]: Failed password for anna from nowhere", 46, "%{IP:source.ip}"),
        ("gate sshd[12]: Accepted password for anna", 16, "`Failed password for `"),
        ("gate sshd[x]: Failed", 11, "%{POSINT:pid:int}"),
        ("gätë sshd[12]: Fail", 20, "`ed password for `"),
        ("", 1, r"`sshd\[`"),
        ("no such line", 5, r"`shd\[`"),
    ],
)
def test_the_column_is_after_what_matched_and_the_next_part_is_named(line: str, column: int, wants: str) -> None:
    found = stop(PATTERN, line)

    assert (found.column, found.expected) == (column, wants)
    assert PATTERN.startswith(found.prefix)


def test_of_alternatives_the_one_that_leads_furthest_counts() -> None:
    found = stop("abc%{INT}|abcd %{WORD}!", "abcd efg")

    assert (found.column, found.prefix, found.expected) == (9, "abcd %{WORD}", "`!`")


def test_an_anchor_that_fails_is_what_is_wanted() -> None:
    assert stop("^b", "ab").column == 1
    assert stop("b$", "bc").expected == "`$`"


def test_stops_at_different_parts_are_separate() -> None:
    stops = Grok("%{WORD} %{INT} %{IP}", {}).stops(["a", "a 1", "a 1 x", "a b"])

    assert [one.column for one in stops] == [2, 4, 5, 3]


@pytest.mark.slow
def test_a_definition_is_looked_into() -> None:
    line = '127.0.0.1 - frank [10/Foo/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326'

    found = stop("%{COMBINEDAPACHELOG}", line)

    assert (found.column, found.expected) == (line.index("Foo") + 1, "%{MONTH}")
    assert found.prefix.endswith("/")
    assert (found.within[0], found.within[-1]) == ("%{COMBINEDAPACHELOG}", "%{HTTPDATE:timestamp}")


def test_own_definitions_and_groups_are_looked_into() -> None:
    grok = Grok("^%{PAIR}$", {"pattern_definitions": {"PAIR": "(?:%{WORD:k}=%{INT:v}|%{WORD}:%{WORD})"}})

    assert [(one.column, one.expected, one.within) for one in grok.stops(["a=x", "ab:!", "!"])] == [
        (3, "%{INT:v}", ("%{PAIR}",)),
        (4, "%{WORD}", ("%{PAIR}",)),
        (1, "%{PAIR}", ()),
    ]


def test_what_cannot_be_cut_is_no_reason_to_fail() -> None:
    found = stop(r"(?<q>['\"])x\k<q>", "'x\"")

    assert found.column == 3
