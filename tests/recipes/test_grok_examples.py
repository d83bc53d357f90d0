"""The grok library's own examples of network devices through the recipes for those devices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from running import ROOT

from etl.config.cases.case import CaseInput
from etl.config.cases.case_file import Suite, inspect_tests
from etl.plan.query_plan import Plan
from etl.resources import recipes
from etl.testing.trial import run_case

EXAMPLES = ROOT / "parsers" / "patterns" / "examples"

Example = tuple[str, str, Mapping[str, Any]]
"""Pattern, line, fields."""

CHANGED = ("cisco.asa.network.", "cisco.asa.duration", "@metadata.", "timestamp", "tls.")
"""Fields that the recipe gives another name or form."""

OF_THE_WAY = ("source.", "destination.", "observer.ingress.", "observer.egress.")
"""Fields that change places where the firewall names the destination first."""

OTHERWISE = {
    "CISCOFW106015": ("cisco.asa.rule_name",),
    "CISCOFW302013_302014_302015_302016": ("event.reason",),
    "CISCOFW302020_302021": ("cisco.asa.icmp_type", "source.", "destination."),
    "CISCOFW304001": ("source.user.name",),
    "CISCOFW402119": ("source.user.name",),
}
"""Fields of single messages that the recipe reads better than the library, which keeps to Logstash's definitions."""


def examples(module: str, names: str) -> Iterator[Example]:
    for name, given in yaml.load((EXAMPLES / f"{module}.yaml").read_text(), Loader=yaml.CSafeLoader).items():
        if re.fullmatch(names, name) and isinstance(given, dict) and "ecs-v1" in given:
            line = given["line"]
            yield name, line if isinstance(line, str) else line["ecs-v1"], given["ecs-v1"]


ASA = list(examples("firewalls", r"CISCOFW\d.*"))
ZEEK = list(examples("zeek", "ZEEK_(?:CONN|DNS|HTTP|FILES)"))


@cache
def suite(recipe: str) -> Suite:
    found = inspect_tests(recipes()[recipe]).suite
    assert found is not None
    return found


def no_spark(plan: Plan, state: Path, drain: bool) -> None:
    raise AssertionError("Spark was asked for")


def events(recipe: str, lines: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """What the recipe makes of the lines, which it must all read."""
    case = suite(recipe).cases[0]
    given = {source: CaseInput((), (tuple(lines),)) for source in case.given}
    outcome = run_case(suite(recipe), replace(case, given=given), no_spark)
    assert list(outcome.letters.rows) == []
    (found,) = outcome.events.values()
    return found.rows


def differing(event: Mapping[str, Any], expected: Mapping[str, Any], but: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in expected.items() if not name.startswith(tuple(but)) and event.get(name) != value}


def asa_line(name: str, message: str) -> str:
    return f"<166>Nov 20 2026 06:25:03: %ASA-6-{name[len('CISCOFW') :][:6]}: {message}"


@cache
def asa_events() -> Mapping[str, Mapping[str, Any]]:
    """Message → event."""
    return {event["message"]: event for event in events("cisco-asa", [asa_line(name, message) for name, message, _ in ASA])}


@cache
def zeek_events() -> Mapping[str, Mapping[str, Any]]:
    """Kind of log → event."""
    return {event["event.dataset"]: event for event in events("zeek-tsv", [line for _, line, _ in ZEEK])}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "message", "fields"), ASA, ids=[name for name, _, _ in ASA])
def test_cisco_asa_reads_the_library_s_messages(name: str, message: str, fields: Mapping[str, Any]) -> None:
    event = asa_events()[message]

    but = (*CHANGED, *OTHERWISE.get(name, ()), *(OF_THE_WAY if "outbound" in message else ()))
    assert event["event.code"] in name
    assert differing(event, fields, but) == {}


@pytest.mark.parametrize(("name", "fields"), [(name, fields) for name, _, fields in ZEEK], ids=[name for name, _, _ in ZEEK])
def test_zeek_tsv_reads_the_library_s_lines(name: str, fields: Mapping[str, Any]) -> None:
    event = zeek_events()[f"zeek.{name.removeprefix('ZEEK_').lower()}"]

    assert differing(event, fields, CHANGED) == {}


def test_the_library_has_such_examples() -> None:
    assert len(ASA) >= 30
    assert len(ZEEK) >= 4
