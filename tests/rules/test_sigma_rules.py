"""Sigma's specification 2.1, by selections: what is written, and the texts or events it matches."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from etl.rules.compiled_rules import compile_rules
from etl.rules.conditions.tree import TRUE
from etl.rules.engine.batch_engine import Engine
from etl.rules.reader import read_rules
from etl.rules.rule import Rule, RuleSet
from etl.rules.sigma.taxonomy import Taxonomy, read_taxonomy

HEAD = {"title": "t", "logsource": {"category": "test"}}


def hits(rules: RuleSet, events: list[dict[str, Any]], taxonomy: Taxonomy | None = None) -> list[list[str]]:
    batch = pa.RecordBatch.from_pylist(events, pa.schema([(name, kind(name, events)) for name in names(events)]))
    force = compile_rules(rules, taxonomy or Taxonomy(), batch.schema)
    found = Engine([rule.condition for rule in force.rules], batch.schema).run(batch)
    bounds = found.offsets.tolist()
    return [[force.rules[n].title for n in found.rule[a:b]] for a, b in itertools.pairwise(bounds)]


def names(events: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for event in events for name in event))


def kind(name: str, events: list[dict[str, Any]]) -> pa.DataType:
    value = next((event[name] for event in events if event.get(name) is not None), "")
    return pa.int64() if isinstance(value, int) else pa.string()


def written(tmp_path: Path, *documents: dict[str, Any]) -> RuleSet:
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump_all(documents, allow_unicode=True), encoding="utf-8")
    return read_rules([str(file)])


def sigma(detection: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEAD, "detection": {"condition": "selection", **detection}, **more}


def matched(tmp_path: Path, selection: Any, events: list[dict[str, Any]]) -> list[int]:
    rules = written(tmp_path, sigma({"selection": selection}))
    assert not rules.problems
    return [n for n, found in enumerate(hits(rules, events)) if found]


def texts(*values: str | None) -> list[dict[str, Any]]:
    return [{"f": value} for value in values]


BASE64 = "SQBFAFgA"  # IEX in UTF-16 LE

CASES: list[tuple[str, Any, list[dict[str, Any]], list[int]]] = [
    ("plain text, in any case", {"f": "Abc"}, texts("abc", "ABC", "abcd", None), [0, 1]),
    ("several values", {"f": ["a", "b"]}, texts("A", "b", "ab"), [0, 1]),
    ("several fields", {"f": "a", "g": "b"}, [{"f": "a", "g": "b"}, {"f": "a", "g": "x"}], [0]),
    ("list of maps", [{"f": "a"}, {"f": "b"}], texts("a", "b", "c"), [0, 1]),
    ("wildcards", {"f": "a*c?e"}, texts("abcde", "ac\ne", "acde", "ace", "xabcde"), [0, 1, 2]),
    ("only a wildcard", {"f": "*"}, texts("a", "", None), [0, 1]),
    ("wildcard at the end", {"f": "ab*"}, texts("AB", "abc", "xab"), [0, 1]),
    ("escaped wildcards", {"f": r"a\*b\?c"}, texts("a*b?c", "axbxc"), [0]),
    ("backslashes", {"f": r"C:\Windows\*"}, texts("c:\\windows*", "c:\\windows\\x"), [0]),
    ("backslash and wildcard", {"f": r"C:\Windows\\*"}, texts("c:\\windows*", "c:\\windows\\x"), [1]),
    ("null", {"f": None}, texts("a", None), [1]),
    ("empty text", {"f": ""}, texts("a", "", None), [1]),
    ("number in a text", {"f": 4688}, texts("4688", "46880"), [0]),
    ("number", {"n": [1, 3]}, [{"n": 1}, {"n": 2}, {"n": 3}, {"n": None}], [0, 2]),
    ("contains", {"f|contains": ["xx", "-D"]}, texts("axxa", "a -d b", "x-x"), [0, 1]),
    ("contains all", {"f|contains|all": ["a", "b"]}, texts("ba", "a", "b"), [0]),
    ("startswith and endswith", {"f|startswith": "a", "f|endswith": "z"}, texts("AZ", "abz", "zaz"), [0, 1]),
    ("wildcard inside of contains", {"f|contains": "a*b"}, texts("1a2b3", "ab", "ba"), [0, 1]),
    ("cased", {"f|cased": "Abc"}, texts("Abc", "abc"), [0]),
    ("cased contains", {"f|contains|cased": "Key"}, texts("x Key", "x key"), [0]),
    ("umlauts in any case", {"f|contains": "ä"}, texts("xÄx", "xäx", "a"), [0, 1]),
    ("re", {"f|re": r"^a.c$"}, texts("abc", "ABC", "a\nc"), [0]),
    ("re with i", {"f|re|i": r"^a.c$"}, texts("abc", "ABC"), [0, 1]),
    ("re with s", {"f|re|s": r"^a.c$"}, texts("a\nc"), [0]),
    ("re with m", {"f|re|m": r"^b$"}, texts("a\nb", "ab"), [0]),
    ("re with look-ahead", {"f|re": r"a(?!b)"}, texts("ab", "ac"), [1]),
    ("cidr", {"f|cidr": ["10.0.0.0/8", "2001:db8::/32"]}, texts("10.1.2.3", "11.0.0.1", "2001:db8::1", "x"), [0, 2]),
    ("base64", {"f|base64|contains": "IEX"}, texts("-e SUVY"), [0]),
    ("base64 of utf16le", {"f|utf16le|base64|contains": "IEX"}, texts("-e " + BASE64, "SUVY"), [0]),
    ("wide", {"f|wide|base64offset|contains": "IEX"}, texts("xx" + BASE64), [0]),
    ("base64offset", {"f|base64offset|contains": "http://"}, texts("AGh0dHA6Ly94", "Y2h0dHA6Ly9h", "eHh4eA=="), [0, 1]),
    ("utf16be", {"f|utf16be|base64|contains": "IE"}, texts("AEkARQ=="), [0]),
    ("windash", {"f|contains|windash": " -enc"}, texts("a -ENC", "a /enc", "a \u2013enc", "enc"), [0, 1, 2]),
    ("windash and all", {"f|contains|windash|all": ["-a", "-b"]}, texts("x -a /b", "x -a"), [0]),
    ("exists", {"f|exists": True}, texts("", None), [0]),
    ("exists not", {"f|exists": False}, texts("", None), [1]),
    ("orders", {"n|gt": 1, "n|lte": 3}, [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}], [1, 2]),
    ("orders of texts", {"f|gte": 10}, texts("9", "10", "x", "11.5", None), [1, 3]),
    ("neq", {"f|neq": "a"}, texts("a", "b", None), [1, 2]),
    ("fieldref", {"f|fieldref": "g"}, [{"f": "a", "g": "A"}, {"f": "a", "g": "b"}, {"f": None, "g": None}], [0]),
    ("fieldref endswith", {"f|fieldref|endswith": "g"}, [{"f": "xab", "g": "AB"}, {"f": "abx", "g": "ab"}], [0]),
    ("hour", {"f|hour": [3, 4]}, texts("2024-05-01T03:59:00Z", "2024-05-01 05:00:00", "x", None), [0]),
    ("minute, day, month, year", {"f|minute": 7, "f|day": 2, "f|month": 5, "f|year": 2024}, texts("2024-05-02 01:07:00"), [0]),
    ("week", {"f|week": 1}, texts("2024-01-03T00:00:00Z", "2024-05-01T00:00:00Z"), [0]),
    ("keyword", ["evil*bin", "x"], [{"f": "an EVIL.bin", "g": ""}, {"f": "", "g": "X"}, {"f": "b", "g": "c"}], [0, 1]),
    ("keywords, all of them", {"|all": ["a", "b"]}, [{"f": "a", "g": "b"}, {"f": "a", "g": "c"}], [0]),
    ("keyword by regular expression", {"|re": "^a+$"}, [{"f": "aa"}, {"f": "ab"}], [0]),
]


@pytest.mark.parametrize(("selection", "events", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_selection(tmp_path: Path, selection: Any, events: list[dict[str, Any]], expected: list[int]) -> None:
    assert matched(tmp_path, selection, events) == expected


CONDITIONS = [
    ("a and not b", [0]),
    ("a or b", [0, 1, 2]),
    ("not (a or b)", [3]),
    ("1 of sel_*", [1, 2]),
    ("all of sel_*", [2]),
    ("a and not 1 of sel_*", [0]),
    ("any of them", [0, 1, 2]),
    ("not a and (b or sel_x)", [1, 2]),
]


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
def test_condition(tmp_path: Path, condition: str, expected: list[int]) -> None:
    # given
    detection = {"a": {"f": "1"}, "b": {"f": ["2", "3"]}, "sel_x": {"f": ["2", "3"]}, "sel_y": {"f": "3"}, "condition": condition}

    # when
    found = hits(written(tmp_path, {**HEAD, "detection": detection}), texts("1", "2", "3", "4"))

    # then
    assert [n for n, rules in enumerate(found) if rules] == expected


def test_placeholders_are_filled(tmp_path: Path) -> None:
    # given
    file = tmp_path / "rule.yml"
    file.write_text(yaml.safe_dump(sigma({"selection": {"f|expand": "%admins%"}})))

    # when
    filled, empty = read_rules([str(file)], (), {"admins": ["alice", "b*"]}), read_rules([str(file)])

    # then
    assert hits(filled, texts("Alice", "bob", "carl")) == [["t"], ["t"], []]
    assert "%admins% has no values" in empty.problems[0].message


def test_global_parts_and_repeats(tmp_path: Path) -> None:
    # given
    shared = {
        "action": "global",
        "logsource": {"category": "test"},
        "detection": {"filter": {"f|contains": "x"}, "condition": "selection and not filter"},
    }
    one = {"title": "one", "detection": {"selection": {"f|startswith": "a"}}}
    two = {"title": "two", "detection": {"selection": {"f|startswith": "b"}}}

    # when
    rules = written(tmp_path, shared, one, two)

    # then
    assert not rules.problems
    assert hits(rules, texts("ab", "ax", "ba", "bx")) == [["one"], [], ["two"], []]


def test_filters_apply_to_rules_of_their_log_source(tmp_path: Path) -> None:
    # given
    rule = sigma({"selection": {"f": ["a", "b"]}}, name="rule_a")
    other = {**sigma({"selection": {"f": "b"}}), "title": "other", "logsource": {"category": "other"}}
    allowed = {
        "title": "allow b", "logsource": {"category": "test"},
        "filter": {"rules": ["rule_a"], "selection": {"f": "b"}, "condition": "not selection"},
    }  # fmt: skip

    # when
    found = hits(written(tmp_path, rule, other, allowed), texts("a", "b"))

    # then
    assert found == [["t"], ["other"]]


BAD: list[tuple[dict[str, Any], str]] = [
    (sigma({"selection": {"f|shout": "a"}}), "Unknown modifier 'shout'"),
    (sigma({"selection": {"f": "a"}, "condition": "selektion"}), "'selektion' not defined"),
    (sigma({"selection": {"f": "a"}, "condition": "selection and ("}), "Expected"),
    (sigma({"selection": {"f|re": "("}}), "invalid"),
    (sigma({"selection": {"f|cidr": "10.0.0.0/99"}}), "Invalid CIDR"),
    ({"title": "x", "detection": {"s": {"f": 1}, "condition": "s"}}, "log source"),
    ({"name": "own", "where": "f = 'a'", "levle": "high"}, "did you mean 'level'"),
    ({"name": "own", "where": "f = 'a'", "level": "huge"}, "not one of informational"),
    ({"name": "own"}, "has a 'where'"),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=[case[1] for case in BAD])
def test_a_bad_rule_is_named_and_the_others_run(tmp_path: Path, bad: dict[str, Any], message: str) -> None:
    # given
    good = sigma({"selection": {"f": "a"}})

    # when
    rules = written(tmp_path, good, bad)

    # then
    (problem,) = rules.problems
    assert message in problem.message
    assert problem.line > 1
    assert hits(rules, texts("a", "b")) == [["t"], []]


def test_a_file_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    # given
    file = tmp_path / "bad.yml"
    file.write_text("title: a\ndetection: [\n")

    # when
    rules = read_rules([str(file)])

    # then
    assert [(problem.file, problem.line) for problem in rules.problems] == [(str(file), 3)]


def test_fields_and_log_sources_are_mapped(tmp_path: Path) -> None:
    # given
    names = tmp_path / "names.yml"
    names.write_text(
        "fields: {f: process.name, kind: event.kind}\nlogsources:\n  - {category: test, selection: {kind: [1, 2]}}\n"
    )
    rules = written(
        tmp_path,
        sigma({"selection": {"f": "a"}}),
        {**sigma({"selection": {"f": "a"}}), "title": "o", "logsource": {"category": "o"}},
    )
    events = [
        {"process.name": "A", "event.kind": 1},
        {"process.name": "a", "event.kind": 3},
        {"process.name": "b", "event.kind": 1},
    ]

    # when
    found = hits(rules, events, read_taxonomy(str(names)))

    # then
    assert found == [["t"], [], []]


@pytest.mark.parametrize(
    ("source", "expected", "fits"),
    [
        ({"category": "a", "product": "p"}, {"category": "a", "product": "p"}, True),
        ({"category": "a", "product": "p"}, {"product": "p"}, True),
        ({"category": "a"}, {"category": "a", "product": "p"}, True),
        ({"service": "s", "product": "p"}, {"category": "a", "product": "p"}, False),
        ({"product": "p"}, {"category": "a", "product": "p"}, False),
        ({"category": "a", "product": "p"}, {"category": "a", "product": "q"}, False),
        ({"category": "a"}, {"product": "p"}, False),
    ],
)
def test_which_rules_are_about_a_log_source(source: dict[str, str], expected: dict[str, str], fits: bool) -> None:
    # given
    rule = Rule("r", "r", TRUE, logsource=tuple(expected.items()))

    # when
    adapted = Taxonomy(logsources=[(source, TRUE)]).adapt(rule)

    # then
    assert (adapted is not None) == fits


def test_the_package_contains_windows_log_sources() -> None:
    assert len(read_taxonomy("sigma/windows.yml").logsources) > 40


def test_a_slow_expression_is_stopped_and_the_others_run(tmp_path: Path) -> None:
    # given
    runaway = sigma({"selection": {"f|re": "(?=a)(a|aa)+$"}})
    good = {**sigma({"selection": {"f|endswith": "!"}}), "title": "good"}

    # when
    rules = written(tmp_path, runaway, good)

    # then
    assert not rules.problems
    assert hits(rules, texts("a" * 60 + "!")) == [["good"]]


@pytest.mark.slow
def test_without_pysigma_sigma_rules_are_named_and_ours_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    monkeypatch.setitem(sys.modules, "sigma.collection", None)

    # when
    rules = written(tmp_path, sigma({"selection": {"f": "a"}}), {"name": "own", "where": "f = 'a'"})

    # then
    assert "pip install 'sluice-etl[sigma]'" in rules.problems[0].message
    assert hits(rules, texts("a")) == [["own"]]


# ── N of ──

THREE = {"s1": {"f|contains": "a"}, "s2": {"f|contains": "b"}, "s3": {"f|contains": "c"}, "_s": {"f|contains": "d"}}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("2 of s*", [2, 3, 4]),
        ("2 of them", [2, 3, 4]),
        ("3 OF s*", [4]),
        ("not 2 of s*", [0, 1, 5]),
        ("2 of s* and _s", []),
        ("2 of *s*", [2, 3, 4, 5]),
        ("1 of s*", [1, 2, 3, 4, 5]),
        (["3 of s*", "_s"], [4, 5]),
    ],
)
def test_so_many_of_the_selections(tmp_path: Path, condition: Any, expected: list[int]) -> None:
    # given
    rules = written(tmp_path, {**HEAD, "detection": {**THREE, "condition": condition}})

    # when
    found = hits(rules, texts("", "a", "ab", "cb", "abc", "ad"))

    # then
    assert not rules.problems
    assert [n for n, one in enumerate(found) if one] == expected


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("4 of s*", "'4 of s*' can never be: it stands for 3 selections"),
        ("0 of s*", "'0 of s*' can never be: it stands for 3 selections"),
        ("2 of nothing*", "'2 of nothing*' can never be: it stands for 0 selections"),
    ],
)
def test_more_than_there_are(tmp_path: Path, condition: str, message: str) -> None:
    assert [one.message for one in written(tmp_path, {**HEAD, "detection": {**THREE, "condition": condition}}).problems] == [
        message
    ]


def test_selections_of_which_too_many_ways_lead_to_the_number(tmp_path: Path) -> None:
    # given
    many = {f"s{n}": {"f|contains": str(n)} for n in range(20)}

    # when
    problems = written(tmp_path, {**HEAD, "detection": {**many, "condition": "5 of them"}}).problems

    # then
    assert [one.message for one in problems] == ["'5 of them': there are more than 1,000 ways to choose 5 of 20 selections"]


def test_the_number_counts_selections_of_a_global_part_too(tmp_path: Path) -> None:
    # given
    shared = {"action": "global", **HEAD, "detection": {"s1": {"f|contains": "a"}}}
    own = {"detection": {"s2": {"f|contains": "b"}, "s3": {"f|contains": "c"}, "condition": "2 of s*"}}

    # when
    found = hits(written(tmp_path, shared, own), texts("a", "ac", "b"))

    # then
    assert [bool(one) for one in found] == [False, True, False]
