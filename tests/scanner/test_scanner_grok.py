"""The grok library on the scanner: the captures equal those of RE2 or ``regex`` with the same tree."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.scanner.engines import compile_search
from etl.scanner.pattern_error import PatternError
from etl.scanner.regex_printer import format_regex, group_name
from etl.scanner.scanner import Scanner
from etl.scanner.tree import Node, captures
from parsers.grok.captures import with_distinct_names
from parsers.grok.compiler import compile_pattern
from parsers.patterns import load

pytestmark = pytest.mark.slow

PATIENT = timedelta(seconds=30)
SETS = ("ecs-v1", "legacy")

PATTERNS = [
    "%{IPORHOST:x} %{WORD:y}",
    "%{IP:x}",
    "%{NUMBER:x}(?:-|%{IPV4:y}) ",
    "x=%{NUMBER:x}%{GREEDYDATA:y}",
    "%{HOSTNAME:x}(?: |$)",
    "%{TIME:x}%{GREEDYDATA:y}",
    "(?:-|%{HTTPDUSER:x}) %{BASE16NUM:y}",
    "(?<x>a(?!b)|.)(?<y>1*)",
    "(?<![0-9a])(?<x>[0-9]+(?:b|a(?!1)))",
    "(?>1+|a)(?<x>[:.])",
    "%{QS:x} ?%{INT:y}",
    "\\b(?<x>a+)\\b",
]
TEXTS = st.text(alphabet='01259abx=:. -"\\@\n', max_size=24)


def grok(pattern: str, pattern_set: str = "ecs-v1") -> Node | None:
    """Captures of one name have names of their own, as the step gives them."""
    tree = compile_pattern(pattern, pattern_set, frozenset(), False)
    return None if isinstance(tree, PatternError) else with_distinct_names(tree)


def scanned(scanner: Scanner, texts: Sequence[str]) -> list[dict[str, str | None] | None]:
    found = scanner.scan(pa.array(texts, pa.string()))
    columns = {name: column.to_pylist() for name, column in found.captures.items()}
    return [{name: column[n] for name, column in columns.items()} if found.pattern[n] >= 0 else None for n in range(len(texts))]


def searched(tree: Node, texts: Sequence[str]) -> list[dict[str, str | None] | None]:
    """By RE2, or by ``regex`` if RE2 does not support the pattern."""
    answer = compile_search(tree, PATIENT)(pa.array(texts, pa.string()))
    columns = {name: column.to_pylist() for name, column in answer.captures.items()}
    return [
        {name: column[n] for name, column in columns.items()} if matched else None
        for n, matched in enumerate(answer.matched.to_pylist())
    ]


def backtracked(tree: Node, texts: Sequence[str]) -> list[dict[str, str | None] | None]:
    """By ``regex``; None for a text that takes too long, which the caller leaves out."""
    expression = regex.compile(format_regex(tree, backtracking=True), regex.VERSION1)
    fields = [capture.field for capture in captures(tree)]
    rows: list[dict[str, str | None] | None] = []
    for text in texts:
        found = expression.search(text, timeout=PATIENT.total_seconds())
        row: dict[str, str | None] = dict.fromkeys(fields)
        for number, field in enumerate(fields):
            row[field] = row[field] or (found[group_name(number)] or None if found else None)
        rows.append(row if found else None)
    return rows


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=8))
def test_patterns_on_random_texts(pattern: str, texts: list[str]) -> None:
    tree = grok(pattern)
    assert tree is not None

    assert scanned(Scanner([tree], PATIENT), texts) == backtracked(tree, texts)


def test_vectors(acceptance: Path) -> None:
    """All vectors whose patterns the library has."""
    by_pattern: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in (acceptance / "grok/vectors.jsonl").read_text().splitlines():
        vector = json.loads(line)
        by_pattern[vector["pattern"], vector["set"]].append(vector["message"])
    trees = {key: tree for key in by_pattern if (tree := grok(*key)) is not None}

    wrong: list[Any] = []
    ways: dict[str, int] = defaultdict(int)
    for key, tree in trees.items():
        texts = by_pattern[key]
        scanner = Scanner([tree], PATIENT)
        ways[scanner.engine_choices[0].engine] += 1
        if scanned(scanner, texts) != searched(tree, texts):
            wrong.append(key)

    assert wrong == []
    assert sum(len(by_pattern[key]) for key in trees) >= 138
    assert ways["scanner"] > 0.9 * len(trees), ways


def test_the_whole_library_on_its_messages(acceptance: Path) -> None:
    """Some messages for each name of the library, and slightly damaged ones."""
    vectors = [json.loads(line) for line in (acceptance / "grok/vectors.jsonl").read_text().splitlines()]
    messages = sorted({vector["message"] for vector in vectors if len(vector["message"]) < 500})
    chance = Random(1 if "CI" in os.environ else None)
    names = [(name, pattern_set) for pattern_set in SETS for name in load(pattern_set)]

    wrong: list[Any] = []
    for name, pattern_set in names if "SLUICE_FUZZ" in os.environ else chance.sample(names, 60):
        tree = grok(f"%{{{name}:it}}", pattern_set)
        assert tree is not None, name
        texts = chance.sample(messages, 4)
        texts += [_damaged(text, chance) for text in texts]
        found, expected = scanned(Scanner([tree], PATIENT), texts), backtracked(tree, texts)
        wrong += [(name, pattern_set, *row) for row in zip(texts, found, expected, strict=True) if row[1] != row[2]]

    assert wrong == []


def _damaged(text: str, chance: Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(["", " ", "é", "\n", "0", "\0", text[:5]]) + text[at + chance.randrange(3) :]
