"""``etl convert``: SQL scripts, and rules and scripts of RocketMQ Streams, as YAML that says the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from etl.catalogue import installed
from etl.cli.config_options import PipelineFile
from etl.config.document.parser import decode
from etl.config.document.sql_script import read_script
from etl.config.document.yaml_document import Flaw
from etl.config.document.yaml_text import yaml_text
from etl.config.loader import inspect, is_script
from etl.rsql.problems import SourceError


@click.command()
@click.argument("file", type=PipelineFile(exists=True, dir_okay=False))
@click.option(
    "--from",
    "language",
    type=click.Choice(["sql", "rules", "script"]),
    help="What the file holds; by default its name says so: .sql, .rules or .script.",
)
def command(file: Path, language: str | None) -> None:
    """Print in YAML what another language says: an SQL script, or rules and scripts of RocketMQ Streams.

    An SQL script becomes a pipeline, filter expressions such as (field,function,value)&(…) become rules of the step rules, and a
    script such as level=lower(level);rm(raw); becomes steps.

    \b
    Examples:
      etl convert job.sql > job.yaml
      etl convert filters.rules > rules/filters.yml
      etl convert enrich.script
    """
    language = language or ("sql" if is_script(file) else file.suffix[1:].lower())
    if language == "sql":
        value = _pipeline(file)
    elif language in _LANGUAGES:
        value = _converted(file, _LANGUAGES[language])
    else:
        raise click.UsageError(f"{file}: the name does not end in .sql, .rules or .script; say what it holds with --from")
    click.echo(yaml_text(value), nl=False)


def _pipeline(file: Path) -> Any:
    document = read_script(file.read_bytes(), installed(), file.parent)
    if document.value is None:
        for problem in inspect(file).problems:
            click.echo(str(problem), err=True)
        raise click.exceptions.Exit(1)
    return document.value


def _converted(file: Path, convert: Callable[[str], tuple[Any, list[SourceError]]]) -> Any:
    text = decode(file.read_bytes())
    if isinstance(text, Flaw):
        raise click.ClickException(f"{file}: {text.message}")
    value, errors = convert(text)
    for error in errors:
        click.echo(error.shown(str(file), text), err=True)
    if errors:
        raise click.exceptions.Exit(1)
    return value


def _convert_rules(text: str) -> tuple[Any, list[SourceError]]:
    from etl.rsql.rules_file import read_rules_file

    rules, errors = read_rules_file(text)
    if not rules and not errors:
        errors.append(SourceError("no-rules", "there is no rule in it", 0, "a rule is (field,function,value)&(…)"))
    return [{"name": rule.name, "where": rule.where} for rule in rules], errors


def _convert_script(text: str) -> tuple[Any, list[SourceError]]:
    from etl.rsql.scripts import convert_script

    try:
        steps, scope = convert_script(text)
    except SourceError as error:
        return None, [error]
    for message, at in scope.warnings.items():
        click.echo(f"warning: {message} (line {text.count(chr(10), 0, at) + 1})", err=True)
    return {"steps": steps}, []


_LANGUAGES = {"rules": _convert_rules, "script": _convert_script}
