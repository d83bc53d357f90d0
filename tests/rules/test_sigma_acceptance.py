"""1,042 rules of SigmaHQ over events they did not make: hits as pySigma's SQLite backend and Tenzir found them."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.rules.compiled_rules import CompiledRules, compile_rules
from etl.rules.files import find_rule_files
from etl.rules.reader import read_rules
from etl.rules.rule import Rule, RuleSet
from etl.rules.sigma.taxonomy import Taxonomy, read_taxonomy

NAMES = {"ThreatName": "Threat Name", "SourceName": "Source Name", "ProcessName": "Process Name"}
"""What the one rule that needs it calls fields of Defender's events."""


@pytest.fixture
def folder(acceptance: Path) -> Path:
    return acceptance / "sigma"


@cache
def all_rules(folder: Path) -> RuleSet:
    return read_rules(find_rule_files([str(folder / "rules"), str(folder / "rules-emerging-threats")]))


def process_creation(folder: Path) -> RuleSet:
    return RuleSet(
        tuple(rule for rule in all_rules(folder).rules if "/windows/process_creation/" in rule.file and "/rules/" in rule.file)
    )


def written(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def as_batch(events: list[dict[str, Any]]) -> pa.RecordBatch:
    names = list(dict.fromkeys(name for event in events for name in event))
    columns = [pa.array([written(event.get(name)) for event in events], pa.string()) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


@cache
def batch_of(file: Path) -> pa.RecordBatch:
    return as_batch([json.loads(line) for line in gzip.open(file)])


def hits(force: CompiledRules, batch: pa.RecordBatch) -> dict[str, list[int]]:
    found, events = force.engine(batch.schema).run(batch), defaultdict(list)
    for row in range(batch.num_rows):
        for number in found.rule[found.offsets[row] : found.offsets[row + 1]]:
            events[force.rules[number].id].append(row)
    return dict(events)


def oracle(folder: Path, run: int) -> dict[str, Any]:
    return json.loads((folder / "oracle.json").read_text())["runs"][run]


@pytest.mark.slow
def test_all_rules_load(folder: Path) -> None:
    assert len(all_rules(folder).rules) == 1042
    assert all_rules(folder).problems == ()


@pytest.mark.slow
@pytest.mark.parametrize(("run", "names"), [(0, None), (1, "sigma/windows.yml"), (2, None), (2, "sigma/windows.yml")])
def test_hits_equal_those_of_other_engines(folder: Path, run: int, names: str | None) -> None:
    # given
    expected = oracle(folder, run)
    batch = batch_of(folder / expected["events_file"])
    force = compile_rules(process_creation(folder), read_taxonomy(names), batch.schema)

    # when
    found = hits(force, batch)

    # then
    assert found == {rule: hit["events"] for rule, hit in expected["hits"].items()}
    assert sum(map(len, found.values())) == expected["total_hits"]


@pytest.mark.slow
def test_the_other_rules_change_no_hit(folder: Path) -> None:
    # given
    batch = batch_of(folder / "process_creation_events.jsonl.gz")
    alone = hits(compile_rules(process_creation(folder), Taxonomy(), batch.schema), batch)

    # when
    together = hits(compile_rules(all_rules(folder), Taxonomy(), batch.schema), batch)

    # then
    assert {rule: rows for rule, rows in together.items() if rule in alone} == alone


@pytest.mark.slow
def test_rules_fire_for_their_regression_events(folder: Path) -> None:
    # given
    cases = [json.loads(line) for line in (folder / "regression/events.jsonl").read_text().splitlines()]
    batch = as_batch([flat(case["event"]) for case in cases])

    # when
    plain = hits(compile_rules(all_rules(folder), Taxonomy(), batch.schema), batch)
    mapped = hits(compile_rules(all_rules(folder), Taxonomy(NAMES), batch.schema), batch)

    # then
    fired = [row in plain.get(case["rule_id"], []) for row, case in enumerate(cases)]
    assert fired == [case["own_rule_fires"] for case in cases]
    silent = {case["rule_id"] for case in cases} - {cases[row]["rule_id"] for row, fires in enumerate(fired) if fires}
    assert all(rule in mapped for rule in silent)


def flat(event: dict[str, Any]) -> dict[str, Any]:
    """A Windows event with the members of its parts as fields; or a line of text."""
    if "raw" in event:
        return {"message": event["raw"]}
    parts = event["Event"]
    system = {name: value for name, value in parts["System"].items() if not isinstance(value, dict)}
    system["Provider_Name"] = parts["System"].get("Provider", {}).get("#attributes", {}).get("Name")
    return {**system, **dict(inner(parts.get("EventData") or {})), **dict(inner(parts.get("UserData") or {}))}


def inner(data: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from inner(value)
        elif not name.startswith("#"):
            yield name, value


@pytest.mark.slow
def test_every_rule_has_its_author(folder: Path) -> None:
    assert all(isinstance(rule, Rule) and rule.author for rule in all_rules(folder).rules)
