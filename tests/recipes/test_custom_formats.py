"""Recipes that take a format of the user's own from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from etl.config.cases.case import CaseInput
from etl.config.cases.case_file import inspect_tests
from etl.plan.query_plan import Plan
from etl.resources import recipes
from etl.testing.trial import run_case


def no_spark(plan: Plan, state: Path, drain: bool) -> None:
    raise AssertionError("Spark was asked for")


def events(recipe: str, env: Mapping[str, str], lines: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """What the recipe makes of the lines, which it must all read."""
    suite = inspect_tests(recipes()[recipe], {**os.environ, **env}).suite
    assert suite is not None
    case = suite.cases[0]
    outcome = run_case(suite, replace(case, given={source: CaseInput((), (tuple(lines),)) for source in case.given}), no_spark)
    assert list(outcome.letters.rows) == []
    (found,) = outcome.events.values()
    return found.rows


def test_flows_in_an_order_of_ones_own() -> None:
    env = {"VPC_FLOW_FORMAT": "%{instance_id} %{interface_id} %{srcaddr} %{dstaddr} %{reject_reason} %{start} %{end}"}

    found = events("aws-vpc-flow", env, ["i-1 eni-1 10.0.0.1 192.0.2.1 BPA 1566848875 1566848933"])

    assert [(e["cloud.instance.id"], e["source.ip"], e["aws.vpcflow.reject_reason"]) for e in found] == [
        ("i-1", "10.0.0.1", "BPA")
    ]


def test_iis_with_a_list_of_fields_of_ones_own() -> None:
    env = {"IIS_FIELDS": "date time c-ip cs-method cs-uri-stem sc-status X-Forwarded-For"}

    found = events("iis", env, ["#Fields: " + env["IIS_FIELDS"], "2026-11-20 06:25:03 192.0.2.1 GET /a.htm 200 198.51.100.7"])

    assert [(e["source.ip"], e["url.path"], e["http.response.status_code"]) for e in found] == [("192.0.2.1", "/a.htm", 200)]
    assert [e["network.forwarded_ip"] for e in found] == ["198.51.100.7"]


def test_postgresql_with_a_prefix_of_ones_own() -> None:
    env = {"POSTGRESQL_PREFIX": r"%{t} %{u}/%{d} \[%{a}\] %{h} <%{p}> "}

    found = events("postgresql", env, ["2026-04-03 22:32:14 UTC app/shop [psql] 10.0.0.1 <77> ERROR:  x"])

    assert [(e["user.name"], e["postgresql.log.client_addr"], e["process.pid"], e["message"]) for e in found] == [
        ("app", "10.0.0.1", 77, "x")
    ]
