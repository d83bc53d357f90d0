"""Reads the tests of a pipeline, which are in its file, or in a ``*_test.yaml`` beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.config.build import report_faults
from etl.config.cases.case import Case
from etl.config.cases.case_check import checked_cases
from etl.config.cases.case_schema import file_schema
from etl.config.document.parser import read
from etl.config.document.yaml_document import Document, YamlProblem
from etl.config.loader import inspect, is_test_file
from etl.config.model import OptionPath, Pipeline, YamlLocation
from etl.config.options.faults import faults_by
from etl.config.problems import Problem
from etl.config.report import Report

if TYPE_CHECKING:
    import jsonschema_rs

SUFFIX = "_test"


@dataclass(frozen=True)
class Suite:
    """The tests in a file. ``locations`` are those of its keys and list items."""

    file: str
    pipeline: Pipeline
    cases: tuple[Case, ...]
    locations: Mapping[OptionPath, YamlLocation]

    def location(self, path: OptionPath) -> str:
        """``file:line`` of an option's path, or of the nearest part around it that has a location."""
        while path and path not in self.locations:
            path = path[:-1]
        return f"{self.file}:{self.locations.get(path, (1, 1))[0]}"


@dataclass(frozen=True)
class CheckedTests:
    """The tests of a file, and all problems of the file and its pipeline; no tests if there are errors."""

    suite: Suite | None
    problems: tuple[Problem, ...]


def inspect_tests(
    path: str | os.PathLike[str], env: Mapping[str, str] = os.environ, overrides: Sequence[str] = ()
) -> CheckedTests:
    """Check the tests of a pipeline file or of a ``*_test.yaml``, and the pipeline."""
    if is_test_file(path):
        return _inspect_test_file(str(path), env, overrides)
    checked = inspect(path, env, overrides)
    pipeline = checked.pipeline
    suite = Suite(str(path), pipeline, pipeline.tests, pipeline.locations) if pipeline else None
    return CheckedTests(suite, checked.problems)


def _inspect_test_file(file: str, env: Mapping[str, str], overrides: Sequence[str]) -> CheckedTests:
    report = Report(file, _document(file))
    for flaw in report.document.flaws:
        report.add_at(flaw.location, flaw.path, flaw.code, flaw.message, flaw.hint)
    root = report.document.value
    if not isinstance(root, dict):
        if not report.document.flaws:
            report.add((), "missing-option", "needs 'tests'", "lines in, events out, by the names of the tests")
        return CheckedTests(None, tuple(report.sorted()))
    report_faults(faults_by(*_validator(), root, report), {}, report)
    given = root.get("pipeline")
    stem = Path(file).stem.removesuffix(SUFFIX)
    names = [given] if isinstance(given, str) and given else [f"{stem}{Path(file).suffix}", f"{stem}.sql"]
    path = next((one for name in names if (one := Path(file).parent / name).is_file()), Path(file).parent / names[0])
    if not path.is_file():
        report.add(("pipeline",), "missing-file", f"there is no pipeline {str(path)!r}", "name it: pipeline: other.yaml")
        return CheckedTests(None, tuple(report.sorted()))
    checked = inspect(path, env, overrides)
    pipeline = checked.pipeline
    if pipeline is None or report.errors:
        return CheckedTests(None, (*report.sorted(), *checked.problems))
    cases = checked_cases(root["tests"], pipeline, report)
    locations = {location: found.key or found.value for location, found in report.document.locations.items()}
    suite = None if report.errors else Suite(file, replace(pipeline, tests=cases), cases, locations)
    return CheckedTests(suite, (*report.sorted(), *checked.problems))


def _document(file: str) -> Document:
    try:
        return read(Path(file).read_bytes())
    except OSError as error:
        return Document("", flaws=[YamlProblem((1, 1), "unreadable-file", error.strerror or str(error))])


@cache
def _validator() -> tuple[jsonschema_rs.Draft202012Validator, Mapping[str, Any]]:
    import jsonschema_rs

    schema = file_schema()
    return jsonschema_rs.Draft202012Validator(schema), schema
