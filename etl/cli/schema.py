"""``etl schema``: the JSON Schemas of pipeline files and of their tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from etl.catalogue import installed
from etl.config.cases.case_schema import file_schema
from etl.config.schema import pipeline_schema


@click.command()
@click.option("--tests", is_flag=True, help="The schema of files of tests, x_test.yaml.")
@click.option("--api", is_flag=True, help="The OpenAPI document of the API of etl serve.")
def command(tests: bool, api: bool) -> None:
    """Print the JSON Schema of pipeline files, for editors.

    \b
    Examples:
      etl schema > pipeline.schema.json
      # first line of a pipeline, for editors with the YAML language server:
      # yaml-language-server: $schema=pipeline.schema.json
      etl schema --tests > tests.schema.json
    """
    if tests and api:
        raise click.UsageError("--tests and --api are two documents")
    click.echo(api_text() if api else _format_schema(file_schema()) if tests else text())


def api_text() -> str:
    """The OpenAPI document as it is committed, without the last newline."""
    from etl.server.api_routes import document

    return _format_schema(document())


def text() -> str:
    """The schema of pipelines as it is committed, without the last newline."""
    return _format_schema(pipeline_schema(installed()))


def _format_schema(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False)
