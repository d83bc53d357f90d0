"""The parser `cef`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import ROOT

from parsers.cef.parser import Cef

STORED = {"logstash_codec_cef.jsonl": 26, "vrl_parse_cef.jsonl": 7}
"""Vectors a file, all of which pass."""

DIALECTS: dict[str, dict[str, Any]] = {
    "logstash_codec_cef.jsonl": {"naming": "full", "repeats": "last"},
    "vrl_parse_cef.jsonl": {"naming": "written", "repeats": "last", "strict": True},
}
"""What the origin of each file does without being asked."""

OPTIONS = {"translate_custom_fields": "custom_labels"}


def event(text: str | None, **options: Any) -> dict[str, Any] | None:
    """All fields of an event that has them, flat; None when it fails."""
    parsed = Cef(**options).compile()(pa.array([text], pa.string()))
    if parsed.failed is not None and parsed.failed[0].as_py():
        return None
    fields = {name: column[0].as_py() for name, column in parsed.columns.items()}
    rest = json.loads(fields.pop("cef.extensions") or "{}")
    return {name: value for name, value in fields.items() if value is not None} | rest


def flat(expected: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields by their paths; ``{"ad.field": {"0": x}}`` is what Logstash makes of the key ``ad.field[0]``."""
    found = {}
    for name, value in expected.items():
        if isinstance(value, dict) and next(iter(value)).isdigit():
            found |= {f"{prefix}{name}[{number}]": inner for number, inner in value.items()}
        else:
            found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return {name: value for name, value in found.items() if value is not None}


# ── Vectors ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", DIALECTS)
def test_vectors(acceptance: Path, file: str) -> None:
    vectors = [json.loads(line) for line in (acceptance / "cef" / file).read_text().splitlines()]

    wrong = []
    for vector in vectors:
        options = {OPTIONS[name]: value for name, value in vector.get("options", {}).items()}
        found = event(vector["line"], **DIALECTS[file], **options)
        if found != (flat(vector["expected"]) if vector["valid"] else None):
            wrong.append((vector["source"], vector["line"], found))

    assert wrong == []
    assert len(vectors) >= STORED[file]


def test_vectors_in_ecs(acceptance: Path) -> None:
    vectors = [json.loads(line) for line in (acceptance / "cef" / "logstash_codec_cef.jsonl").read_text().splitlines()]
    known = [vector for vector in vectors if "expected_ecs_v1" in vector]

    wrong = []
    for vector in known:
        found = event(vector["line"], fields={"event.start": "timestamp"}, repeats="last")
        if found != flat(vector["expected_ecs_v1"]):
            wrong.append((vector["source"], vector["line"], found))

    assert wrong == []
    assert len(known) >= 20


# ── Headers and extensions ────────────────────────────────────────────────────────────────────────

HEAD = "CEF:0|v|p|1.0|100|n|10|"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "is null"),
        ("junk", "has no 'CEF:' with a version after it"),
        ("CEF:0|a|b|c|d|e|5", "has fewer than 7 fields, each ended by '|', after 'CEF:'"),
        ("CEF:0|a|b\nc|", "has a line break inside"),
        (HEAD + "junk", "has text before its first extension"),
    ],
)
def test_reasons(text: str | None, reason: str) -> None:
    parsed = Cef().compile()(pa.array([text, HEAD + "a=1"], pa.string()))

    assert parsed.failed.to_pylist() == [True, False]
    assert parsed.reasons[0].as_py() == reason
    assert [column[0].as_py() for column in parsed.columns.values()] == [None] * len(parsed.columns)


def test_events_and_their_schema() -> None:
    step = Cef(fields={"source.port": "int"}, rest=None)
    batch = pa.RecordBatch.from_pydict({"message": [HEAD + "spt=5", HEAD + "spt=x"], "_offset": [0, 1]})

    events, rejects = step.open(batch.schema)(batch)

    assert pa.schema([(f.name, pa.string() if f.type == pa.string_view() else f.type) for f in events.schema]) == step.fields(
        batch.schema
    )
    assert events.column("source.port").to_pylist() == [5]
    assert rejects[0].reasons.to_pylist() == ["field 'source.port' is 'x', not int"]


def test_a_header_field_cannot_be_declared_again() -> None:
    (finding,) = Cef(fields={"event.code": "int"}).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path) == ("field-conflict", ("fields", "event.code"))


# ── Any text ──────────────────────────────────────────────────────────────────────────────────────

PIECES = st.sampled_from(
    ["CEF:", "CEF:0|", "|", HEAD, "\\", "=", " ", "a=", "cs1=", "cs1Label=", "[0]=", ".b", "\n", "\r", '"', "é", "\0"]
)
ANY = st.lists(st.one_of(PIECES, st.characters(codec="utf-8")), max_size=15).map("".join)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(ANY, ANY.map(HEAD.__add__)), max_size=8), st.booleans(), st.booleans())
def test_no_text_raises_and_a_row_does_not_depend_on_its_neighbours(texts: list[str], strict: bool, labels: bool) -> None:
    parse = Cef(strict=strict, custom_labels=labels, fields={"a": "array<string>", "b": "int"}).compile()

    together = parse(pa.array(texts, pa.string()))

    for row, text in enumerate(texts):
        alone = parse(pa.array([text]))
        assert (together.failed is not None and together.failed[row].as_py()) == (alone.failed is not None)
        for name, column in together.columns.items():
            assert column[row].as_py() == alone.columns[name][0].as_py()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=5))
def test_no_bytes_raise(texts: list[bytes]) -> None:
    column = pa.array([*texts, *(HEAD.encode() + text for text in texts)], pa.binary()).view(pa.string())

    parsed = Cef(custom_labels=True).compile()(column)

    assert {len(found) for found in parsed.columns.values()} == {2 * len(texts)}


@pytest.mark.parametrize("text", ["CEF:", "CEF:0|", "a=", "a ", " ", "\\", "a.b", "a[0"])
def test_long_texts_take_time_in_proportion(text: str) -> None:
    long = text * (2_000_000 // len(text))

    assert len(Cef().compile()(pa.array([long, HEAD + long, HEAD + "x=" + long])).columns["cef.extensions"]) == 3


@pytest.mark.slow
def test_lint_of_times_needs_no_numpy() -> None:
    """Lint runs without it; where a parser's check asks for it the whole check fails."""
    script = (
        "import sys; from etl.lean import forbid; forbid('numpy'); import pyarrow as pa; from parsers.cef.parser import Cef; "
        "print(list(Cef(fields={'@timestamp': 'timestamp'}).check(pa.schema([('message', pa.string())]))))"
    )

    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)

    assert (found.stdout.strip(), found.returncode) == ("[]", 0), found.stderr
