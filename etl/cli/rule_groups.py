"""The rules that the paths of ``etl rules`` name: files of rules, and steps of pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from etl.api import Schema
    from etl.config.model import Pipeline
    from etl.rules.correlation.model import Correlation
    from etl.rules.rule import Rule, RuleProblem, RuleSet
    from etl.rules.sigma.taxonomy import Taxonomy
    from etl.steps.detection.rule_sources import RuleSources

    Located = TypeVar("Located", Rule, RuleProblem, Correlation)


@dataclass(frozen=True)
class Group:
    """Rules that are loaded together, and the stream's names for their fields."""

    taxonomy: Taxonomy
    rules: RuleSet
    step: str = ""
    """The step of a pipeline whose rules they are."""
    tables: tuple[str, ...] = ()
    """Tables with further rules of the step."""
    columns: tuple[str, ...] | None = None
    """The stream's fields, if they are known."""


def groups(paths: Sequence[str], names: str | None, columns: str | None = None) -> Iterator[Group]:
    """The rules of all files together, and those of each step of a pipeline. Raises ConfigError for a pipeline with errors."""
    from etl.rules.files import find_rule_files
    from etl.rules.reader import read_rules
    from etl.rules.sigma.taxonomy import TaxonomyError, read_taxonomy

    pipelines = [path for path in paths if _is_pipeline(path)]
    others = [path for path in paths if path not in pipelines]
    files = find_rule_files(others)
    if others and not files:
        raise click.UsageError("no files of rules there; their names end in .yml or .yaml")
    if files:
        try:
            taxonomy = read_taxonomy(names)
        except TaxonomyError as error:
            raise click.UsageError(str(error)) from error
        given = tuple(name.strip() for name in columns.split(",")) if columns else None
        yield Group(taxonomy, read_rules(files, (), taxonomy.placeholders), columns=given)
    for path in pipelines:
        yield from _steps(path)


def _is_pipeline(path: str) -> bool:
    """Whether a path leads to a pipeline file: it has a source, which no rule has."""
    from etl.rules.files import read_documents

    return Path(path).is_file() and any(one.data.keys() & {"source", "sources"} for one in read_documents(path)[0])


def _steps(path: str) -> Iterator[Group]:
    from etl.config.loader import load
    from etl.plan.graph import Graph
    from etl.steps.detection.rule_sources import RuleSources

    pipeline = load(path)
    incoming: dict[str, Schema] = {}
    for node in Graph(pipeline).steps.values():
        incoming.setdefault(node.id.partition(" ")[0], node.incoming)  # of the parts of a step the first
    found = False
    for stream in pipeline.streams.values():
        for index, step in enumerate(stream.steps):
            if isinstance(step, RuleSources):
                found = True
                yield _group(pipeline, (stream.name, index), step, incoming[f"{stream.name}[{index}]"])
    if not found:
        raise click.UsageError(f"{path} is a pipeline without a step that goes by rules: `rules` or `correlate`")


def _group(pipeline: Pipeline, at: tuple[str, int], step: RuleSources, incoming: Schema) -> Group:
    """The rules of a step, by the lines of the pipeline file where they stand in it."""
    from etl.api import visible
    from etl.rules.compiled_rules import drop_failing_rules
    from etl.rules.sigma.taxonomy import read_taxonomy

    stream, index = at
    names = read_taxonomy(step.taxonomy)
    taxonomy = replace(names, placeholders=step.filled(names))
    read = drop_failing_rules(step.as_read(), taxonomy, visible(incoming))
    lines = {
        (kind, number): pipeline.locations.get(("streams", stream, "steps", index, kind, number - 1), (0, 0))[0]
        for kind in ("rules", "correlations")
        for number in range(1, len(getattr(step, kind, ())) + 1)
    }
    rules = replace(
        read,
        rules=_with_lines(read.rules, pipeline.file, lines),
        problems=tuple(sorted(_with_lines(read.problems, pipeline.file, lines), key=lambda one: (one.file, one.line))),
        correlations=_with_lines(read.correlations, pipeline.file, lines),
    )
    name = f"{stream}[{index}] {step.type}"
    return Group(taxonomy, rules, name, tuple(step.tables), tuple(visible(incoming).names))


def _with_lines(ones: Iterable[Located], file: str, lines: Mapping[tuple[str, int], int]) -> tuple[Located, ...]:
    """Rules of the step itself, whose lines are numbers so far, with their lines in the pipeline file."""
    return tuple(
        replace(one, file=file, line=lines[one.file, one.line]) if (one.file, one.line) in lines else one for one in ones
    )
