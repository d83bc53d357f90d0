"""The grok library as a drop-in: what Logstash's definitions match and capture, ours match and capture.

``grok_library_cases.jsonl`` holds texts that were generated from each pattern, some of them altered, with the answer that
the package ``regex`` gave for the definition of logstash-patterns-core. ``_match`` is the whole match; null: no match.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.scanner.learning import Learner, MatchArrays
from parsers.grok.parser import Grok

pytestmark = pytest.mark.slow

ROWS = [
    json.loads(line) for line in Path(__file__).with_name("grok_library_cases.jsonl").read_text(encoding="utf-8").splitlines()
]
FEWEST = 678
"""Patterns of both sets, which all have cases."""


def read(pattern: str, pattern_set: Any, texts: list[str]) -> list[dict[str, Any] | None]:
    """Fields of each text without nulls, a list of one as its element; None where the pattern does not match."""
    parsed = Grok(patterns=[f"%{{{pattern}:_match}}"], pattern_set=pattern_set).compile()(pa.array(texts))
    failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * len(texts)
    columns = {name: column.to_pylist() for name, column in parsed.columns.items()}
    rows = [{name: column[n] for name, column in columns.items() if column[n] is not None} for n in range(len(texts))]
    single = [{k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in row.items()} for row in rows]
    return [None if bad else row for bad, row in zip(failed, single, strict=True)]


def test_every_pattern_has_cases() -> None:
    assert len(ROWS) >= FEWEST


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['pattern']}-{row['set']}")
def test_pattern_reads_as_logstash_does(row: dict[str, Any]) -> None:
    texts = [text for text, _ in row["cases"]]

    found = read(row["pattern"], row["set"], texts)

    assert dict(zip(texts, found, strict=True)) == dict(row["cases"])


@pytest.mark.parametrize("row", ROWS[::9], ids=lambda row: f"{row['pattern']}-{row['set']}")
def test_pattern_reads_the_same_where_nothing_was_learned(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The automaton learns as long as there is time; RE2 and the package ``regex`` read the rest, and mean the same."""
    monkeypatch.setattr(Learner, "scan", lambda self, texts: MatchArrays.unknown(len(self.names), len(texts.address)))

    found = read(row["pattern"], row["set"], [text for text, _ in row["cases"]])

    assert found == [fields for _, fields in row["cases"]]
