"""``etl describe``: one component for its user."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from etl.api import nearest
from etl.catalogue import NamedPattern, installed, type_name
from etl.cli.config_options import PipelineFile
from etl.expressions.library.catalogue import all_functions, find, names_in_scripts, script_names
from etl.expressions.library.flink.names import UNSUPPORTED
from etl.expressions.library.pages import describe
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS
from etl.reference import Option, Page, page

_WIDTH = 100

MAX_SHOWN = 300
"""Maximum number of shown characters of an expanded pattern, which may have thousands."""


@click.command()
@click.argument("name")
@click.option(
    "--pipeline", type=PipelineFile(exists=True, dir_okay=False), help="A pipeline whose functions of your own are known, too."
)
def command(name: str, pipeline: Path | None) -> None:
    """Explain a component: what it does, its options, an example. Or a pattern that `grok` knows: what it reads. Or a function of
    expressions, by its name in YAML or in SQL scripts, also one of your own.

    \b
    Examples:
      etl describe grok
      etl describe file
      etl describe SYSLOGBASE
      etl describe ip_in
      etl describe domain --pipeline mail.yaml
    """
    if pipeline is not None and (own := _own_text(name, pipeline)):
        click.echo(own)
        return
    pages = [_text(page(component)) for component in dict.fromkeys(installed().find(name))]
    pages = pages or [_pattern_text(pattern) for pattern in installed().patterns if pattern.name == name]
    pages = pages or _function_texts(name.lower())
    if not pages:
        raise click.UsageError(f"there is no component, pattern or function {name!r}; {_hint(name)}")
    click.echo("\n\n".join(pages))


def _own_text(name: str, pipeline: Path) -> str | None:
    """The description of a function that a pipeline declares."""
    from etl.config.loader import inspect
    from etl.udf.pages import describe_function

    checked = inspect(pipeline)
    if checked.pipeline is None:
        raise click.UsageError(f"{pipeline} has errors; see: etl lint {pipeline}")
    function = checked.pipeline.functions.get(name.lower())
    if function is None:
        return None
    head, *lines = describe_function(function)
    return "\n".join([click.style(head, bold=True), *lines])


def _hint(name: str) -> str:
    components = {type_name(component) for component in installed().components}
    patterns = {pattern.name for pattern in installed().patterns}
    functions = {function.name for function in all_functions()} | SPARK_FUNCTIONS | set(names_in_scripts())
    return nearest(name, components | patterns | functions) or "see: etl list, etl list patterns, etl list functions"


def _function_texts(name: str) -> list[str]:
    """The descriptions of the functions with a name, in YAML or in scripts."""
    from etl.expressions.calls.functions import FUNCTIONS

    named = (find(name), *map(find, script_names(name)))
    found = {one.name: one for one in named if one is not None}.values()
    texts = []
    for one in found:
        head = click.style(f"{one.call} (function, {one.dialect})", bold=True)
        scripts = [f"In SQL scripts it is {name.upper()}.", ""] if names_in_scripts().get(name) == one.name else []
        texts.append("\n".join([head, "", *scripts, *describe(one)]))
    if name in UNSUPPORTED:
        texts.append(f"{name} is a function of Flink that is not here: {UNSUPPORTED[name]}.")
    if name in SPARK_FUNCTIONS:
        lane = "runs on Arrow, with exactly Spark's results" if name in FUNCTIONS else "is computed by Spark"
        head = click.style(f"{name}(…) (function, Spark)", bold=True)
        texts.append(f"{head}\n\nA function of Spark SQL: its documentation has the meaning. It {lane}.")
    return texts


def _text(about: Page) -> str:
    parts = [click.style(f"{about.name} ({about.kind})", bold=True), "", about.text, ""]
    if about.guarantee:
        parts += [f"Delivery: {about.guarantee}.", ""]
    parts += [click.style("Options", bold=True), *(line for option in about.options for line in _option(option))]
    if about.example:
        parts += ["", click.style("Example", bold=True), textwrap.indent(about.example.rstrip(), "  ")]
    return "\n".join(parts)


def _option(option: Option) -> list[str]:
    default = "required" if option.default is None else f"default {option.default}"
    head = f"  {click.style(option.name, fg='cyan')}  {option.type}; {default}"
    return [head, *textwrap.wrap(option.description, _WIDTH, initial_indent="      ", subsequent_indent="      ")]


def _pattern_text(pattern: NamedPattern) -> str:
    """The page of a named pattern: definition, expanded form, fields, example."""
    return "\n".join(_pattern_lines(pattern))


def _pattern_lines(pattern: NamedPattern) -> Iterator[str]:
    sets = f"set{'s' if len(pattern.sets) > 1 else ''} {' and '.join(pattern.sets)}"
    yield click.style(f"{pattern.name} (pattern, {sets}, file {pattern.file})", bold=True)
    yield from _section("Definition", [f"  {pattern.definition}"])
    if pattern.expanded != pattern.definition:
        yield from _section("Expanded", [f"  {_short(pattern.expanded)}"])
    example = pattern.example
    if pattern.fields:
        yield from _section("Fields", _fields(pattern.fields, example.fields if example else {}))
    if example:
        yield from _section("Example", [f"  {line}" for line in example.line.split("\n")])


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield ""
    yield click.style(title, bold=True)
    yield from lines


def _short(expression: str) -> str:
    if len(expression) <= MAX_SHOWN:
        return expression
    return f"{expression[:MAX_SHOWN]}… ({len(expression):,} characters)"


def _fields(types: Mapping[str, str], found: Mapping[str, Any]) -> list[str]:
    """Name, type, and what the example gives."""
    names, kinds = max(map(len, types)), max(map(len, types.values()))
    values = {name: repr(value) for name, value in found.items()}
    return [f"  {name:<{names}}  {kind:<{kinds}}  {values.get(name, '')}".rstrip() for name, kind in types.items()]
