"""Pipeline files → pipelines, or all of their problems."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from etl.api import FrameSource, Sink, Source, Step
from etl.catalogue import Catalogue, installed
from etl.config.build import build
from etl.config.cases.case_check import checked_cases
from etl.config.checks.flow import check_flow
from etl.config.checks.functions import give_functions, read_functions
from etl.config.checks.graph import check_graph, find_leaves
from etl.config.checks.published import check_published
from etl.config.checks.tables import give_tables
from etl.config.checks.targets import check_targets, find_conflicts
from etl.config.document.other_tools import other_tool
from etl.config.document.parser import read_versions
from etl.config.document.sql_script import read_script
from etl.config.document.yaml_document import Document, YamlProblem
from etl.config.environment import substitute
from etl.config.layout import Layout, check_types, lay_out
from etl.config.model import OptionPath, Output, Pipeline, RunOptions, Stream, YamlLocation
from etl.config.nested_values import as_mapping
from etl.config.options.faults import coerce, faults, validator
from etl.config.options.home_paths import with_home_folders
from etl.config.options.repair import repair, used_components
from etl.config.options.variants import ComponentVariant
from etl.config.overrides import override
from etl.config.problems import ConfigError, Problem, Severity, in_file_order
from etl.config.report import Report

_CONSOLE = "console"
TESTS = "tests"


@dataclass(frozen=True)
class CheckedPipeline:
    """A file's pipeline, None when there are errors, and all of its problems in file order."""

    pipeline: Pipeline | None
    problems: tuple[Problem, ...]


def load(path: str | os.PathLike[str], env: Mapping[str, str] = os.environ, overrides: Sequence[str] = ()) -> Pipeline:
    """Read a file. Raises ConfigError with all of its problems, warnings included, when one is an error."""
    checked = inspect(path, env, overrides)
    if checked.pipeline is None:
        raise ConfigError(checked.problems)
    return checked.pipeline


def check(
    paths: Iterable[str | os.PathLike[str]], env: Mapping[str, str] = os.environ, as_command: Severity | None = None
) -> list[Problem]:
    """All problems of all files, in file order. ``as_command``: also problems of running them in one command, at most this
    severe."""
    problems: list[Problem] = []
    pipelines: list[Pipeline] = []
    for path in paths:
        if is_test_file(path):
            from etl.config.cases.case_file import inspect_tests

            problems += inspect_tests(path, env).problems
        else:
            checked = inspect(path, env)
            problems += checked.problems
            pipelines += [checked.pipeline] if checked.pipeline else []
    problems += check_published(pipelines, lambda path: inspect(path, env).pipeline)
    return in_file_order([*problems, *(find_conflicts(pipelines, as_command) if as_command else ())])


def is_test_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds tests of another, by its name."""
    return Path(path).stem.endswith("_test")


def inspect(
    path: str | os.PathLike[str],
    env: Mapping[str, str] = os.environ,
    overrides: Sequence[str] = (),
    catalogue: Catalogue | None = None,
) -> CheckedPipeline:
    """A file's pipeline and problems."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        flaw = YamlProblem((1, 1), "unreadable-file", error.strerror or str(error))
        return inspect_document(str(path), Document("", flaws=[flaw]), env, overrides, catalogue)
    return inspect_content(path, data, env, overrides, catalogue)


def inspect_content(
    path: str | os.PathLike[str],
    data: bytes,
    env: Mapping[str, str] = os.environ,
    overrides: Sequence[str] = (),
    catalogue: Catalogue | None = None,
) -> CheckedPipeline:
    """The pipeline and problems of a content that a file has, or is to have."""
    if is_script(path):
        script = read_script(data, catalogue or installed(), Path(path).parent)
        return inspect_document(str(path), script, env, overrides, catalogue)
    found = [(document, inspect_document(str(path), document, env, overrides, catalogue)) for document in read_versions(data)]
    return found[0][1] if len(found) == 1 else CheckedPipeline(None, tuple(in_file_order(_of_versions(found))))


def is_script(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an SQL script, by its name."""
    return Path(path).suffix.lower() == ".sql"


def _of_versions(found: Sequence[tuple[Document, CheckedPipeline]]) -> Iterable[Problem]:
    """Problems of a file with repeated keys: those that do not depend on which of the values is used."""
    same = [{replace(problem, hint=None) for problem in checked.problems} for _, checked in found]
    for problem in {replace(problem, hint=None): problem for _, checked in found for problem in checked.problems}.values():
        location = problem.line, problem.column
        if all(
            replace(problem, hint=None) in problems or any(start <= location < end for start, end in document.left_out)
            for problems, (document, _) in zip(same, found, strict=True)
        ):
            yield problem


def inspect_document(
    file: str,
    document: Document,
    env: Mapping[str, str] = os.environ,
    overrides: Sequence[str] = (),
    catalogue: Catalogue | None = None,
) -> CheckedPipeline:
    """The pipeline and problems of a document that has been read from a file, or made by the Python front end."""
    checked = _inspect_document(file, document, env, overrides, catalogue)
    if document.unused is None:
        return checked
    of_unused = _inspect_document(file, document.unused, env, (), catalogue).problems
    spans, known = document.unused.spans, {(one.line, one.column, one.code) for one in checked.problems}
    found = [
        replace(one, severity="warning")
        for one in of_unused
        if one.severity == "error"
        and (one.line, one.column, one.code) not in known
        and any(first <= (one.line, one.column) < last for first, last in spans)
    ]
    return replace(checked, problems=tuple(in_file_order([*checked.problems, *found])))


def _inspect_document(
    file: str, document: Document, env: Mapping[str, str], overrides: Sequence[str], catalogue: Catalogue | None
) -> CheckedPipeline:
    report = Report(file, document)
    for flaw in document.flaws:
        report.add_at(flaw.location, flaw.path, flaw.code, flaw.message, flaw.hint, flaw.severity)
    report.broken |= set(document.replaced_values)
    root = document.value
    if not isinstance(root, dict):
        if not document.flaws:
            found = "the file is empty" if root is None else "the file holds no mapping"
            report.add((), "not-a-pipeline", found, other_tool(document.text) or "a pipeline begins with 'source:' or 'sources:'")
        return CheckedPipeline(None, tuple(report.sorted()))
    tests = {key: root[key] for key in (TESTS,) if key in root}  # lines of a log may hold ${…} of their own
    root = substitute({key: value for key, value in root.items() if key not in tests}, env, report) | tests
    override(root, overrides, report)
    pipeline = _check(root, catalogue or installed(), report)
    return CheckedPipeline(None if report.errors else pipeline, tuple(report.sorted()))


def _check(root: dict[str, Any], catalogue: Catalogue, report: Report) -> Pipeline | None:
    """Check forms, types, schema, construction, names, fields and targets in turn: each check reports, and the next continues."""
    root = repair(root, catalogue, report)
    layout = lay_out(root, report)
    check_types(layout, catalogue, report)
    used = used_components(layout, catalogue)
    coerced = with_home_folders(coerce(root, used, report), layout, report)
    if coerced is not root:
        root = coerced
        layout = lay_out(root, Report(report.file, report.document))
    built, run = build(layout, root, catalogue, validator(used)[1], faults(root, used, report), report)
    declared = {**as_mapping(root.get("sources")), **as_mapping(root.get("streams"))}
    give_tables(layout, built, report)
    functions = read_functions(root, report)
    give_functions(layout, functions, built, report)
    order = check_graph(layout, declared or {**layout.sources, **layout.streams}, report)
    check_flow(layout, order, built, report)
    check_targets(layout, built, report)
    report.note_unchecked()
    if report.errors:
        return None
    pipeline = replace(_pipeline(root, layout, order, built, run, catalogue, report), functions=functions)
    _check_plan(pipeline, layout, report)
    if report.errors:
        return None
    return replace(pipeline, tests=checked_cases(root.get(TESTS), pipeline, report)) if TESTS in root else pipeline


def _check_plan(pipeline: Pipeline, layout: Layout, report: Report) -> None:
    """Report a stateful step for which there is no plan. Others always have one."""
    if not any(step.stateful for stream in pipeline.streams.values() for step in stream.steps):
        return
    from etl.plan.spark_queries import unplanned_step

    if error := unplanned_step(pipeline):
        at = (part.path for part in layout.parts() if _location(pipeline, layout, part.path) == error.node.location)
        report.add(next(at, ()), "needs-spark", error.reason, error.hint)


def _location(pipeline: Pipeline, layout: Layout, path: OptionPath) -> YamlLocation | None:
    return pipeline.locations.get(layout.model_path(path))


def _pipeline(
    root: Mapping[str, Any],
    layout: Layout,
    order: Sequence[str],
    built: Mapping[OptionPath, ComponentVariant],
    run: RunOptions,
    catalogue: Catalogue,
    report: Report,
) -> Pipeline:
    def component(path: OptionPath) -> Any:
        return built[path].component

    sources: dict[str, Source | FrameSource] = {name: component(part.path) for name, part in layout.sources.items()}
    streams = {name: _stream(name, layout, built) for name in order}
    sinks = {
        name: Output(name, tuple(ref.name for ref in sink.inputs), component(sink.part.path))
        for name, sink in layout.sinks.items()
    }
    return Pipeline(
        name=root.get("name") or Path(report.file).stem,
        sources=sources,
        streams=streams,
        sinks=sinks or _default_sinks(layout, catalogue),
        dead_letters=component(layout.dead_letters.path) if layout.dead_letters else None,
        run=run,
        description=root.get("description"),
        locations=_positions(layout, report),
        file=report.file,
        tables={name: component(part.path) for name, part in layout.tables.items()},
    )


def _stream(name: str, layout: Layout, built: Mapping[OptionPath, ComponentVariant]) -> Stream:
    part = layout.streams[name]
    steps = [built[step.path].component for step in part.steps]
    return Stream(name, tuple(ref.name for ref in part.inputs), tuple(step for step in steps if isinstance(step, Step)))


def _default_sinks(layout: Layout, catalogue: Catalogue) -> dict[str, Output]:
    """The console, for a file without sinks."""
    console = catalogue.families["sink"].get(_CONSOLE)
    sink = console.model_validate({}) if console else None
    return {_CONSOLE: Output(_CONSOLE, find_leaves(layout), sink)} if isinstance(sink, Sink) else {}


def _positions(layout: Layout, report: Report) -> dict[OptionPath, YamlLocation]:
    return {layout.model_path(path): location.key or location.value for path, location in report.document.locations.items()}
