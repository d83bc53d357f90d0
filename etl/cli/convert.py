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
from etl.config.document.yaml_document import YamlProblem
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
@click.option("--to", "target", type=click.Choice(["yaml", "sql"]), default="yaml", help="What is printed.")
@click.option(
    "--stubs",
    metavar="FILE",
    default="",
    help="Python file beside an SQL script: a function to fill in is added for each function in Java that the script calls.",
)
def command(file: Path, language: str | None, target: str, stubs: str) -> None:
    """Print in YAML what another language says: an SQL script, or rules and scripts of RocketMQ Streams. Or a pipeline as SQL.

    An SQL script becomes a pipeline, filter expressions such as (field,function,value)&(…) become rules of the step rules, and a
    script such as level=lower(level);rm(raw); becomes steps. With --to sql a pipeline becomes a script that is the same pipeline,
    or the command says which step SQL has no words for.

    \b
    Examples:
      etl convert job.sql > job.yaml
      etl convert job.sql --stubs functions.py > job.yaml
      etl convert filters.rules > rules/filters.yml
      etl convert enrich.script
      etl convert job.yaml --to sql > job.sql
    """
    if stubs:
        _write_stubs(file, stubs)
    if target == "sql":
        click.echo(_script(file), nl=False)
        return
    language = language or ("sql" if is_script(file) else file.suffix[1:].lower())
    if language == "sql":
        value = _pipeline(file, stubs)
    elif language in _LANGUAGES:
        value = _convert(file, _LANGUAGES[language])
    else:
        raise click.UsageError(f"{file}: the name does not end in .sql, .rules or .script; say what it holds with --from")
    click.echo(yaml_text(value), nl=False)


def _write_stubs(file: Path, stubs: str) -> None:
    """Add the functions that the Python file lacks."""
    from etl.sql.functions.stubs import java_functions, missing_functions, stub_file
    from etl.sql.reading import read_script as read_statements

    path = file.parent / stubs
    text = decode(file.read_bytes())
    if path.suffix != ".py":
        raise click.UsageError(f"--stubs names a Python file, such as functions.py, not {stubs}")
    if not is_script(file) or isinstance(text, YamlProblem):
        raise click.UsageError(f"--stubs takes an SQL script, and {file} is none")
    found = path.read_text("utf-8") if path.exists() else ""
    missing = missing_functions(java_functions(read_statements(text)), found)
    if missing:
        path.write_text(found + stub_file(missing, is_new=not found), "utf-8")
    names = ", ".join(one.python_name for one in missing)
    click.echo(f"{path}: {f'to fill in: {names}' if missing else 'no function is missing'}", err=True)


def _pipeline(file: Path, stubs: str = "") -> Any:
    document = read_script(file.read_bytes(), installed(), file.parent, stubs)
    errors = [flaw for flaw in document.flaws if flaw.severity == "error"]
    if errors and stubs:
        _refuse([f"{file}:{flaw.location[0]}:{flaw.location[1]}: {flaw.code}: {flaw.message}" for flaw in errors])
    if errors or document.value is None:
        for problem in inspect(file).problems:
            click.echo(str(problem), err=True)
        raise click.exceptions.Exit(1)
    return document.value


def _refuse(messages: list[str]) -> None:
    for message in messages:
        click.echo(message, err=True)
    raise click.exceptions.Exit(1)


def _script(file: Path) -> str:
    from etl.config.document.parser import read
    from etl.sql.to_sql import NotSqlError, to_script

    checked = inspect(file)
    if checked.pipeline is None:
        for problem in checked.problems:
            click.echo(str(problem), err=True)
        raise click.exceptions.Exit(1)
    document = None if is_script(file) else read(file.read_bytes())
    value = dict(_pipeline(file) if document is None else document.value)
    if value.pop("tests", None) is not None:
        click.echo(f"tests are left out: those of a script are in a file beside it, {file.stem}_test.yaml", err=True)
    try:
        return to_script(value, installed())
    except NotSqlError as error:
        short = {("streams", "steps", "steps"): ("steps",), ("sources", "main"): ("source",), ("sinks", "result"): ("sink",)}
        path = next((new + error.path[len(old) :] for old, new in short.items() if error.path[: len(old)] == old), error.path)
        found = document.locations.get(path if "source" in value else error.path) if document else None
        location = f"{file}:{found.value[0]}:{found.value[1]}" if found else str(file)
        raise click.ClickException(f"{location}: {error}") from None


def _convert(file: Path, convert: Callable[[str], tuple[Any, list[SourceError]]]) -> Any:
    text = decode(file.read_bytes())
    if isinstance(text, YamlProblem):
        raise click.ClickException(f"{file}: {text.message}")
    value, errors = convert(text)
    for error in errors[:_MAX_ERRORS]:
        click.echo(error.shown(str(file), text), err=True)
    if len(errors) > _MAX_ERRORS:
        click.echo(f"{len(errors) - _MAX_ERRORS:,} more errors and warnings", err=True)
    if any(not error.is_warning for error in errors):
        raise click.exceptions.Exit(1)
    return value


def _convert_rules(text: str) -> tuple[Any, list[SourceError]]:
    from etl.rsql.rules_file import read_rules_file

    rules, errors = read_rules_file(text)
    if not rules and not errors:
        errors.append(SourceError("no-rules", "there is no rule in it", 0, "a rule is (field,function,value)&(…)"))
    errors += [warning for rule in rules for warning in rule.warnings]
    return [{"name": rule.name, "where": rule.where} for rule in rules], errors


def _convert_script(text: str) -> tuple[Any, list[SourceError]]:
    from etl.rsql.scripts import convert_script

    try:
        steps, scope = convert_script(text)
    except SourceError as error:
        return None, list(error.all)
    for message, at in scope.warnings.items():
        click.echo(f"warning: {message} (line {text.count(chr(10), 0, at) + 1})", err=True)
    return {"steps": steps}, []


_MAX_ERRORS = 100
"""Errors and warnings of a file that are shown, errors first."""

_LANGUAGES = {"rules": _convert_rules, "script": _convert_script}
