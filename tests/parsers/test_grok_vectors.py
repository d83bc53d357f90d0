"""The grok vectors of logstash-patterns-core whose patterns need only names of this library."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parsers.grok import Grok
from parsers.patterns import load

EXCEPTIONS: dict[str, str] = {}
"""Source → why the vector is not to be met."""

STORED = {"core_spec.rb": 85, "httpd_spec.rb": 11, "java_spec.rb": 15, "syslog_spec.rb": 27}
"""Vectors a file that the library must meet, of those stored."""

FILES = ("grok-patterns", "linux-syslog", "httpd", "java")


def nested(fields: dict[str, Any]) -> dict[str, Any]:
    """Our flat fields as Logstash writes them: objects, a list of one as its element, nulls left out."""
    event: dict[str, Any] = {}
    for name, value in fields.items():
        if value is None:
            continue
        *parents, last = name.split(".")
        node = event
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value[0] if isinstance(value, list) and len(value) == 1 else value
    return event


def parse(pattern: str, pattern_set: Any, text: str) -> dict[str, Any] | None:
    parsed = Grok(patterns=[pattern], pattern_set=pattern_set).compile()(pa.array([text]))
    if parsed.failed is not None and parsed.failed[0].as_py():
        return None
    return nested({name: column[0].as_py() for name, column in parsed.columns.items()})


@pytest.mark.parametrize("pattern_set", ["ecs-v1", "legacy"])
def test_library_has_every_name_of_the_four_files(acceptance: Path, pattern_set: str) -> None:
    names = json.loads((acceptance / "grok/pattern_names.json").read_text())[pattern_set]
    wanted = {name for file in FILES for name in names[file]}

    assert wanted - set(load(pattern_set)) == set()


def test_vectors(acceptance: Path) -> None:
    names = json.loads((acceptance / "grok/pattern_names.json").read_text())
    known = {s: {name for file in FILES for name in names[s][file]} for s in names}
    vectors = [json.loads(line) for line in (acceptance / "grok/vectors.jsonl").read_text().splitlines()]
    ours = [v for v in vectors if set(re.findall(r"%\{(\w+)", v["pattern"])) <= known[v["set"]]]

    wrong = []
    passed = dict.fromkeys(STORED, 0)
    for vector in ours:
        found = parse(vector["pattern"], vector["set"], vector["message"])
        if found == (vector["expected"] if vector["matches"] else None):
            file = vector["source"].rpartition("/")[2].partition("#")[0]
            passed[file] = passed.get(file, 0) + 1
        elif vector["source"] not in EXCEPTIONS:
            wrong.append((vector["source"], vector["pattern"], found))

    assert wrong == []
    assert all(passed[file] >= many for file, many in STORED.items()), passed
