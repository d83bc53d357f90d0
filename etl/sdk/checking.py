"""A definition → the checked pipeline that a YAML file of the same content gives, with problems at their places in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from etl.config.loader import CheckedPipeline, inspect_document
from etl.config.model import Pipeline
from etl.config.problems import ConfigError, Problem, in_file_order
from etl.sdk.assembly import Assembled, assemble
from etl.sdk.nodes import Definition


def check(definition: Definition, env: Mapping[str, str] | None = None) -> CheckedPipeline:
    """The pipeline, None when there are errors, and all problems."""
    try:
        assembled = assemble(definition)
    except ConfigError as error:
        return CheckedPipeline(None, error.problems)
    file = definition.site.file
    checked = inspect_document(file, assembled.document(), os.environ if env is None else env)
    problems = [_place(problem, file, assembled) for problem in checked.problems]
    pipeline = checked.pipeline and _with_locations(checked.pipeline, assembled)
    return CheckedPipeline(pipeline, tuple(in_file_order(problems)))


def load(definition: Definition, env: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline. Raises ConfigError with all problems when one is an error."""
    checked = check(definition, env)
    if checked.pipeline is None:
        raise ConfigError(checked.problems)
    return checked.pipeline


def _place(problem: Problem, file: str, assembled: Assembled) -> Problem:
    """The problem at its place in Python; one in another file, such as a file of rules, stays there."""
    if problem.file != file:
        return problem
    found, (line, column) = assembled.locate((problem.line, problem.column))
    return replace(problem, file=found, line=line, column=column)


def _with_locations(pipeline: Pipeline, assembled: Assembled) -> Pipeline:
    """The pipeline with the locations of those parts that are in its own file, which messages of a run name by line only."""
    found = {path: assembled.locate(location) for path, location in pipeline.locations.items()}
    return replace(pipeline, locations={path: at for path, (file, at) in found.items() if file == pipeline.file})
