"""Several pipelines in one command: their files, and conflicts between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from etl.cli.lint import pipeline_files, print_text
from etl.config.checks.targets import find_conflicts
from etl.config.loader import inspect, is_test_file
from etl.config.model import Pipeline
from etl.config.problems import ConfigError, in_file_order


def choose_files(paths: Sequence[Path]) -> list[Path]:
    """Return the named files and the pipeline files of the named folders, each once. Raises UsageError for an empty folder."""
    files: dict[Path, Path] = {}
    for path in paths:
        found = [file for file in pipeline_files([path]) if not (path.is_dir() and is_test_file(file))]
        if not found:
            raise click.UsageError(f"there is no pipeline file in folder {str(path)!r}")
        for file in found:
            files.setdefault(file.resolve(), file)
    return list(files.values())


def load_pipelines(files: Sequence[Path], env: Mapping[str, str], overrides: Sequence[str]) -> list[Pipeline]:
    """Load the pipelines of the files. A script that only declares tables gives none; its warnings are printed.

    Raises ConfigError with the problems of all files or with the conflicts between them, UsageError if two have the same name.
    """
    checked = [inspect(file, env, overrides) for file in files]
    pipelines = [one.pipeline for one in checked if one.pipeline is not None]
    problems = in_file_order(problem for one in checked for problem in one.problems)
    if len(pipelines) < len(checked):
        if any(problem.severity == "error" for problem in problems):
            raise ConfigError(problems)
        print_text([found for one in checked if one.pipeline is None for found in one.problems], err=True)
    by_name: dict[str, str] = {}
    for one in pipelines:
        first = by_name.setdefault(one.name, one.file)
        if first != one.file:
            raise click.UsageError(
                f"pipelines of one command need different names, and both {first} and {one.file} have {one.name!r}: "
                "give one of them another `name:`"
            )
    problems = find_conflicts(pipelines)
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(problems)
    return pipelines
