"""The grok parser: lines in, fields out; what it refuses, and what it tells the user."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.api import Finding
from etl.columns.texts import materialize
from parsers.grok.parser import Grok

MESSAGES = pa.schema([("message", pa.string())])


def batch(*texts: str | None, **columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"message": pa.array(texts, pa.string()), **columns})


def run(parser: Grok, *texts: str | None) -> tuple[list[dict[str, Any]], list[tuple[str, str | None]]]:
    """Events that leave, and the code and text of those rejected."""
    events = batch(*texts)
    outcome = parser.open(events.schema)(events)
    rejected = [(r.code, text) for r in outcome.rejects for text in r.events.column("message").to_pylist()]
    return outcome.events.to_pylist(), rejected


def findings(parser: Grok) -> list[Finding]:
    return list(parser.check(MESSAGES))


def test_batches_have_the_announced_types() -> None:
    parser = Grok(patterns=["%{WORD:name} %{INT:age:int} %{NUMBER:size:float}"])
    events = batch("ann 41 1.5", "bob 7 2")

    found = materialize(parser.open(events.schema)(events).events)

    assert found.schema == parser.fields(events.schema)
    assert found.to_pylist() == [{"name": "ann", "age": 41, "size": 1.5}, {"name": "bob", "age": 7, "size": 2.0}]


def test_sliced_null_and_empty_input() -> None:
    text = pa.array(["zzz", "k=1", None, "", "k=\0\n2", "zzz"]).slice(1, 4)

    parsed = Grok(patterns=["^k=%{GREEDYDATA:v}"]).compile()(text)

    assert parsed.failed is not None
    assert parsed.failed.to_pylist() == [False, True, True, False]
    assert parsed.columns["v"].to_pylist() == ["1", None, None, "\0\n2"]


def test_the_dot_and_line_ends() -> None:
    text = "a\nb"

    assert run(Grok(patterns=["%{GREEDYDATA:v}"]), text)[0] == [{"v": text}]
    assert run(Grok(patterns=["%{GREEDYDATA:v}"], dot_matches_newline=False), text)[0] == [{"v": "a"}]
    assert run(Grok(patterns=["(?m)(?<v>.*)"], dot_matches_newline=False), text)[0] == [{"v": text}]
    assert run(Grok(patterns=["(?-m:(?<v>.*))(?<w>.+)"]), text)[0] == [{"v": "a", "w": "\nb"}]


def test_no_rows() -> None:
    parser = Grok(patterns=["%{WORD:a} %{WORD:a}", "(?!x)%{WORD:b}.*y"])

    assert run(parser) == ([], [])


def test_keep_field_and_on_error() -> None:
    kept = Grok(patterns=["^%{INT:n}$"], keep_field=True, on_error="drop")
    passed = Grok(patterns=["^%{INT:n}$"], on_error="keep")

    assert run(kept, "1", "x") == ([{"message": "1", "n": "1"}], [])
    assert run(passed, "1", "x") == ([{"message": None, "n": "1"}, {"message": "x", "n": None}], [])


def test_a_name_captured_twice_is_an_array_only_where_both_can_be_there() -> None:
    both = Grok(patterns=["%{WORD:x} %{WORD:x}?"])
    either = Grok(patterns=["a=%{WORD:x}|b=%{WORD:x}"])

    assert both.parsed_fields().field("x").type == pa.list_(pa.string())
    assert run(both, "p q", "p ")[0] == [{"x": ["p", "q"]}, {"x": ["p"]}]
    assert run(either, "a=1", "b=2")[0] == [{"x": "1"}, {"x": "2"}]


def test_definitions_and_files(tmp_path: Path) -> None:
    file = tmp_path / "own"
    file.write_text("# ours\nORDER [A-Z]{2}%{DIGITS}\nDIGITS \\d+\n", encoding="utf-8")
    parser = Grok(patterns=["%{ORDER:order}"], pattern_files=[str(file)], pattern_definitions={"DIGITS": "[89]+"})

    assert findings(parser) == []
    assert run(parser, "AB12", "AB98")[0] == [{"order": "AB98"}]


def test_missing_file_is_found() -> None:
    codes = [(f.code, f.path) for f in findings(Grok(patterns=["x"], pattern_files=["/nowhere/x"]))]

    assert codes == [("unreadable-file", ("pattern_files", 0))]


@pytest.mark.parametrize(
    ("pattern", "code", "at"),
    [
        ("abc %{WRD:x}", "unknown-pattern", 4),
        ("ab(c", "bad-pattern", 2),
        ("ab)c", "bad-pattern", 2),
        ("a[b", "bad-pattern", 1),
        ("*a", "bad-pattern", 0),
        ("a{9,1}", "bad-pattern", 1),
        ("%{WORD:a:date}", "bad-pattern", 9),
        ("x%{LOOP}", "cyclic-pattern", 1),
        ("x%{BROKEN}", "bad-pattern", 1),
        ("(" * 5000, "bad-pattern", None),
    ],
)
def test_bad_patterns_are_placed(pattern: str, code: str, at: int | None) -> None:
    parser = Grok(patterns=["fine", pattern], pattern_definitions={"LOOP": "%{AGAIN}", "AGAIN": "%{LOOP}", "BROKEN": "a("})

    (found,) = findings(parser)

    assert (found.code, found.path) == (code, ("patterns", 1))
    assert at is None or found.at == at


@pytest.mark.parametrize(
    ("pattern", "at", "reason"),
    [
        ("from %{IP:source.ip", 5, "has no closing brace"),
        ("from %{IP:source ip} x", 5, "the part ' ip' is ignored"),
        ("%{IP-x}", 0, "the part '-x' is ignored"),
        (r"\%{IP} %{IP:a} [%{}] 100%", None, ""),
    ],
)
def test_what_only_looks_like_a_reference_is_a_warning(pattern: str, at: int | None, reason: str) -> None:
    found = [one for one in Grok(patterns=["x", pattern]).check(MESSAGES) if one.code == "bad-reference"]

    assert [(one.at, one.severity, one.path) for one in found] == ([] if at is None else [(at, "warning", ("patterns", 1))])
    assert all(reason in one.message for one in found)


def test_unknown_name_gets_the_nearest() -> None:
    (found,) = findings(Grok(patterns=["%{SYSLOGTIMESTMP:x}"]))

    assert found.hint == "did you mean 'SYSLOGTIMESTAMP'?"


def test_definitions_that_double_each_other_are_refused() -> None:
    bombs = {f"B{n}": f"%{{B{n + 1}}}%{{B{n + 1}}}" for n in range(40)} | {"B40": "x"}

    (found,) = findings(Grok(patterns=["%{B0}"], pattern_definitions=bombs))

    assert found.code == "bad-pattern"


def test_fields_in_each_others_way() -> None:
    struct = Grok(patterns=["%{WORD:a} %{WORD:a.b}"])
    types = Grok(patterns=["%{INT:a:int}", "%{WORD:a}"])

    assert [f.code for f in findings(struct)] == ["field-conflict"]
    assert [f.code for f in findings(types)] == ["field-conflict"]


def test_look_around_that_stays_is_a_warning_and_works() -> None:
    parser = Grok(patterns=["(?<key>\\w+)=(?<value>(?:(?! \\w+=).)*)"])

    events, _ = run(parser, "a=b c d=e")

    assert events == [{"key": "a", "value": "b c"}]
    assert [(f.code, f.severity) for f in findings(parser)] == [("slow-pattern", "warning")]


@pytest.mark.parametrize(
    "pattern",
    [
        "%{IP:x}",
        "%{NUMBER:x} ",
        "from %{IPORHOST:x}",
        "%{SYSLOGTIMESTAMP:x}%{GREEDYDATA:y}",
        "%{COMBINEDAPACHELOG}",
        '"(?>[^"\\\\]|\\\\.)*"',
        "(?>a+)b",
        "a++$",
        "(?<!x)y",
        "(?=.*)(?:ab)",
    ],
)
def test_common_patterns_run_linear(pattern: str) -> None:
    assert findings(Grok(patterns=[pattern])) == []


def test_runaway_pattern_ends_in_dead_letters() -> None:
    parser = Grok(patterns=["(x+x+)+(?<=yy)z"], timeout="20ms", keep_field=True)  # type: ignore[arg-type]

    _, rejected = run(parser, "x" * 5000, "short", "x" * 4000)

    assert sorted(code for code, _ in rejected) == ["grok-failed", "grok-timeout", "grok-timeout"]


def test_back_references() -> None:
    events, rejected = run(Grok(patterns=["^(?<q>['\"])(?<t>.*?)\\k<q>$", "^(a|b)-\\1(?<end>.)"]), "'x'", "'x\"", "b-b!", "a-b!")

    assert [event["t"] for event in events] == ["x", None]
    assert [event["end"] for event in events] == [None, "!"]
    assert [text for _, text in rejected] == ["'x\"", "a-b!"]


def test_long_host_label_is_no_host() -> None:
    parser = Grok(patterns=["^%{HOSTNAME:h} "])

    events, rejected = run(parser, f"{'a' * 63} ", f"{'a' * 64} ", f"{'a' * 60}.{'b' * 60} ")

    assert [len(event["h"]) for event in events] == [63, 121]
    assert len(rejected) == 1


def test_component_is_picklable() -> None:
    parser = Grok(patterns=["%{WORD:x}"])

    assert pickle.loads(pickle.dumps(parser)) == parser


def test_a_number_of_very_many_digits_is_null() -> None:
    events, _ = run(Grok(patterns=["^%{NOTSPACE:n:int}$"]), "1" * 5000, "7")

    assert [event["n"] for event in events] == [None, 7]
