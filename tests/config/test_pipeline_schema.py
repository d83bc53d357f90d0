"""The JSON Schema: golden, strict, and of one mind with construction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fake_components import CATALOGUE, Out

from etl.catalogue import installed
from etl.cli.schema import text
from etl.config.options.faults import validator
from etl.config.schema import option_schemas, pipeline_schema

GOLDEN = Path(__file__).parents[2] / "schemas" / "pipeline.schema.json"


def test_the_committed_schema_is_current() -> None:
    assert GOLDEN.read_text("utf-8") == text() + "\n", "refresh it: etl schema > schemas/pipeline.schema.json"


@pytest.mark.slow
def test_it_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(pipeline_schema(installed()))


@pytest.mark.parametrize(
    ("document", "valid"),
    [
        ({"source": {"type": "lines", "path": "x"}}, True),
        ({"sources": {"a": {"type": "lines", "path": "x"}}, "sinks": {"o": {"from": "a", "type": "out", "path": "y"}}}, True),
        ({"source": {"type": "lines", "path": "x"}, "sink": {"type": "out", "path": "y", "from": "a"}}, False),
        ({"sources": {"a": {"type": "lines", "path": "x"}}, "sinks": {"o": {"type": "out", "path": "y"}}}, False),
        ({"source": {"type": "lines", "path": "x"}, "sinks": {}}, False),
        ({"source": {"type": "out", "path": "x"}}, False),
        ({"source": {"path": "x"}}, False),
        ({"source": {"type": "lines", "path": "x", "more": 1}}, False),
        ({"source": {"type": "lines", "path": "x", "columns": {"a b": "int"}}}, False),
        ({"source": {"type": "lines", "path": "x", "every": "1s"}}, True),
        ({"source": {"type": "lines", "path": "x", "every": "1 fortnight"}}, False),
        ({"source": {"type": "lines", "path": "x"}, "surplus": 1}, False),
        ({}, False),
    ],
)
def test_both_validators_decide_alike(document: dict[str, Any], valid: bool) -> None:
    compiled, schema = validator(CATALOGUE)

    assert compiled.is_valid(document) is valid
    assert jsonschema.Draft202012Validator(schema).is_valid(document) is valid


def test_defaults_are_written_as_users_write_them() -> None:
    options = option_schemas(Out)

    assert options["retry"]["properties"]["initial_backoff"]["default"] == "1s"
    assert options["login"]["anyOf"][0]["properties"]["password"]["writeOnly"] is True
