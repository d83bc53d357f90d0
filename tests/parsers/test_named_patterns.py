"""Every pattern of the library: it has an example, reads it as said, and runs on the scanner."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.scanner.engine_choice import choose_engine
from etl.scanner.tree_analysis import estimate_size
from parsers import patterns
from parsers.grok.compiler import compile_pattern
from parsers.grok.library import NamedPattern, named_patterns
from parsers.grok.parser import Grok
from parsers.patterns import SETS, load

pytestmark = pytest.mark.slow

PATTERNS = list(named_patterns())
FOLDER = Path(patterns.__file__).parent

MAX_INSTRUCTIONS = 30_000
"""Of a pattern: about 0.3 s until its first text is read."""


EMPTY_ALONE = {"HAPROXYCAPTUREDREQUESTHEADERS", "HAPROXYCAPTUREDRESPONSEHEADERS"}
"""Patterns that are one %{DATA}: it takes text only inside a pattern that goes on."""


def read(pattern: NamedPattern, line: str) -> dict[str, Any] | None:
    """The fields that are not null, or None; a pattern without fields has to match the whole line."""
    options = {"pattern_set": pattern.sets[0], "anchored": not pattern.fields}
    parser = Grok.model_validate({"patterns": [f"%{{{pattern.name}}}"], **options})
    parsed = parser.compile()(pa.array([line]))
    if parsed.failed is not None:
        return None
    return {name: value for name, column in parsed.columns.items() if (value := column[0].as_py()) is not None}


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: f"{pattern.name}-{pattern.sets[0]}")
def test_example_is_read_as_it_says(pattern: NamedPattern) -> None:
    example = pattern.example
    assert example is not None, f"write one into parsers/patterns/examples/{pattern.file}.yaml"

    found = read(pattern, example.line)

    assert found == example.fields
    assert found or not pattern.fields or pattern.name in EMPTY_ALONE


def test_examples_are_of_patterns_that_are_there() -> None:
    examples = {path.stem: set(yaml.load(path.read_text(), Loader=yaml.CSafeLoader)) for path in FOLDER.glob("examples/*.yaml")}
    known = {path.stem: {p.name for p in PATTERNS if p.file == path.stem} for path in FOLDER.glob("*/*.grok")}

    assert examples == known


@pytest.mark.parametrize("pattern_set", SETS)
def test_every_definition_runs_on_the_scanner_without_remark(pattern_set: Any) -> None:
    trees = {name: compile_pattern(f"%{{{name}}}", pattern_set, frozenset(), False) for name in load(pattern_set)}

    assert {name: tree for name, tree in trees.items() if isinstance(tree, Exception)} == {}
    assert {name: choose_engine(tree) for name, tree in trees.items() if choose_engine(tree) != ("scanner", None)} == {}  # type: ignore[arg-type]
    assert {name: estimate_size(tree) for name, tree in trees.items() if estimate_size(tree) > MAX_INSTRUCTIONS} == {}  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern_set", SETS)
def test_every_name_can_stand_alone_in_a_pipeline(pattern_set: Any) -> None:
    events = pa.schema([("message", pa.string())])
    names = [name for name in load(pattern_set) if not name.startswith("_")]

    reason = {name: list(Grok(patterns=[f"%{{{name}}}"], pattern_set=pattern_set).check(events)) for name in names}

    assert {name: findings for name, findings in reason.items() if findings} == {}


@pytest.mark.parametrize("pattern_set", SETS)
def test_no_name_is_defined_twice(pattern_set: str) -> None:
    paths = [*FOLDER.glob("shared/*.grok"), *FOLDER.glob(f"{pattern_set}/*.grok")]
    lines = [line for path in paths for line in path.read_text().splitlines() if line and not line.startswith("#")]
    names = [line.split()[0] for line in lines]

    assert sorted(names) == sorted(set(names))


def test_parts_are_used_in_the_set_that_has_them() -> None:
    for pattern_set in SETS:
        own = {path.stem: patterns.read(path) for path in FOLDER.glob(f"{pattern_set}/*.grok")}
        used = set(re.findall(r"%\{(\w+)", "\n".join(load(pattern_set).values())))

        assert {name for found in own.values() for name in found if name.startswith("_")} - used == set()


def test_expanded_puts_definitions_in_their_places() -> None:
    (ip,) = [p for p in PATTERNS if p.name == "IPORHOST"]
    legacy = next(p for p in PATTERNS if p.name == "SYSLOGPROG" and p.sets == ("legacy",))

    assert "%{" not in ip.expanded
    assert ip.sets == SETS
    assert legacy.expanded == f"(?<program>{load('legacy')['PROG']})(?:\\[(?<pid>{load('legacy')['POSINT']})\\])?"
    assert legacy.fields == {"program": "string", "pid": "string"}


WHOLE_LINES = (
    "BACULA_LOGLINE BIND9 EXIM HAPROXYHTTP HTTPD_ERRORLOG MONGO3_LOG NAGIOSLOGLINE RAILS3 S3_ACCESS_LOG SQUID3 ZEEK_FILES"
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([p for p in PATTERNS if p.name in WHOLE_LINES.split() and p.sets[0] == "ecs-v1"]), st.data())
def test_damaged_lines_are_read_or_rejected(pattern: NamedPattern, data: st.DataObject) -> None:
    line = pattern.example.line  # type: ignore[union-attr]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(line))] * 2)))
    damaged = line[:start] + data.draw(st.text(max_size=20)) + data.draw(st.sampled_from(["", line[end:], line * 20]))
    texts = pa.array([line, damaged, None, damaged.encode().decode("latin-1")])

    parsed = Grok(patterns=[f"^%{{{pattern.name}}}"]).compile()(texts)

    failed = parsed.failed.to_pylist() if parsed.failed is not None else []
    assert failed[0] is False
    assert failed[2] is True
    assert {len(column) for column in parsed.columns.values()} == {4}
