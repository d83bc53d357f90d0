"""The grok library against the vectors of logstash-patterns-core: every name is there, every vector is met."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parsers.grok.parser import Grok
from parsers.patterns import load

EXCEPTIONS: dict[str, str] = {}
"""Source → why the vector is not to be met."""

STORED = 305
"""Vectors of the origin, all of which are met."""


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


def parse(pattern: str, pattern_set: Any, texts: list[str]) -> list[dict[str, Any] | None]:
    """The event of each text, or None where the pattern does not match."""
    parsed = Grok(patterns=[pattern], pattern_set=pattern_set).compile()(pa.array(texts))
    failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * len(texts)
    columns = {name: column.to_pylist() for name, column in parsed.columns.items()}
    return [None if bad else nested({name: column[n] for name, column in columns.items()}) for n, bad in enumerate(failed)]


@pytest.mark.parametrize("pattern_set", ["ecs-v1", "legacy"])
def test_library_has_every_name(acceptance: Path, pattern_set: str) -> None:
    names = json.loads((acceptance / "grok/pattern_names.json").read_text())[pattern_set]
    expected = {name for found in names.values() for name in found}

    assert expected - set(load(pattern_set)) == set()


@pytest.mark.slow
def test_vectors(acceptance: Path) -> None:
    vectors = [json.loads(line) for line in (acceptance / "grok/vectors.jsonl").read_text().splitlines()]

    alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for vector in vectors:
        alike.setdefault((vector["pattern"], vector["set"]), []).append(vector)

    passed, wrong = 0, []
    for (pattern, pattern_set), group in alike.items():
        for vector, found in zip(group, parse(pattern, pattern_set, [v["message"] for v in group]), strict=True):
            if found == (vector["expected"] if vector["matches"] else None):
                passed += 1
            elif vector["source"] not in EXCEPTIONS:
                wrong.append((vector["source"], pattern, found))

    assert wrong == []
    assert passed >= STORED - len(EXCEPTIONS), f"{passed} of {len(vectors)}"
