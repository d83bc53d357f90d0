"""The API answers requests made from its OpenAPI document, right ones and wrong ones, as that document says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jobs_and_client import Client, Jobs
from test_api_letters import A, write_letters

pytestmark = pytest.mark.slow

EXAMPLES = 20
"""Requests to each operation."""

KNOWN = {"namespace": "shop", "name": "a"}
"""A pipeline that is there."""

schemathesis.checks.load_all_checks()
CHECKS = schemathesis.checks.CHECKS.get_by_names(
    ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
)


def test_any_request_is_answered_as_the_document_says(jobs: Jobs, client: Client) -> None:
    asked, done = set(), set()
    for operation in operations(client):
        client("PUT", A, jobs.text())
        write_letters(jobs.engine.state("shop/a").dead_letters, ["a letter"])

        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
        @given(case=cases(operation))
        def try_one(case: Any) -> None:
            answer = case.call(timeout=120)
            asked.add(case.operation.label)
            if answer.status_code < 300:
                done.add(case.operation.label)
            case.validate_response(answer, checks=CHECKS)

        try_one()

    assert len(asked) >= 24
    assert len(done) >= 18, "too few requests reach what they ask for"


def test_a_server_error_and_an_answer_of_another_form_are_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law can fail."""
    operation = next(one for one in operations(client) if one.label == "GET /api/pipelines")
    case = operation.Case()
    case.validate_response(case.call(), checks=CHECKS)

    monkeypatch.setattr("etl.server.api_reading.status_of", lambda *_: 1 / 0)
    client("PUT", A, "source: {type: file, path: x}\nsink: {type: discard}\n")

    with pytest.raises(schemathesis.core.failures.FailureGroup):
        case.validate_response(case.call(), checks=CHECKS)


def operations(client: Client) -> Iterator[Any]:
    """The operations whose answers end, from the document that the server gives."""
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{client.address.port}/api/openapi.json")
    for found in schema.get_all_operations():
        operation = found.ok()
        if "text/event-stream" not in content_types(operation):
            yield operation


def content_types(operation: Any) -> Sequence[str]:
    answers = operation.definition.raw["responses"].values()
    return [kind for answer in answers for kind in answer.get("content", ())]


def cases(operation: Any) -> st.SearchStrategy[Any]:
    """Requests as described, and wrong ones; half of them are about a pipeline that is there."""
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    some = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))
    return st.builds(about_known, some, st.booleans())


def about_known(case: Any, is_known: bool) -> Any:
    if is_known and "name" in case.path_parameters:
        case.path_parameters.update(KNOWN)
    return case
