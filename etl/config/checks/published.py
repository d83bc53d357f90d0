"""Checks sources that subscribe to other pipelines of this machine: whether one publishes their events, and with which fields."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from etl.api import Finding, PublishedEvents, Source
from etl.config.checks.targets import list_or_nothing
from etl.config.model import OptionPath, Pipeline
from etl.config.problems import Problem, json_path
from etl.config.stream_schemas import merge, schemas_of

_SUFFIXES = (".yaml", ".yml", ".sql")
_MAX_SIBLINGS = 200
"""Number of files of a folder that are searched for publishers."""

ReadFile = Callable[[Path], Pipeline | None]


def check_published(pipelines: Sequence[Pipeline], read_file: ReadFile, others: Sequence[Pipeline] = ()) -> Iterator[Problem]:
    """Find the problems of sources of ``pipelines`` that subscribe to events.

    Publishers are searched in ``pipelines``, in ``others``, and in the files in the same folders, which ``read_file`` loads (None
    if a file is not a valid pipeline).
    """
    subscribing = [pipeline for pipeline in pipelines if any(map(_subscribes, pipeline.sources.values()))]
    if not subscribing:
        return
    known = {os.path.abspath(one.file): one for one in (*pipelines, *others)}
    for path in _siblings(subscribing):
        if path not in known and (found := read_file(Path(path))) is not None:
            known[path] = found
    published = [events for pipeline in known.values() for events in _published_events(pipeline)]
    for pipeline in subscribing:
        for name, source in pipeline.sources.items():
            if isinstance(source, Source):
                for finding in source.check_published(published):
                    yield _problem(pipeline, ("sources", name), finding)


def _subscribes(source: object) -> bool:
    return isinstance(source, Source) and type(source).check_published is not Source.check_published


def _siblings(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return the pipeline files in the folders of these pipelines that may have publishers."""
    folders = dict.fromkeys(os.path.dirname(os.path.abspath(pipeline.file)) for pipeline in pipelines)
    found: list[str] = []
    for folder in folders:
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        found += [os.path.join(folder, name) for name in names if name.endswith(_SUFFIXES) and not _is_test(name)]
    return [path for path in found[:_MAX_SIBLINGS] if _may_publish(path)]


def _is_test(name: str) -> bool:
    return Path(name).stem.endswith("_test")


def _may_publish(path: str) -> bool:
    """Whether a file has the word ``stream``, so that it is worth to load it as a pipeline."""
    try:
        with open(path, "rb") as file:
            return b"stream" in file.read(1 << 20)
    except OSError:
        return False


def _published_events(pipeline: Pipeline) -> Iterator[PublishedEvents]:
    schemas = schemas_of(pipeline)
    for output in pipeline.sinks.values():
        targets = list_or_nothing(output.sink.writes)
        yield PublishedEvents(pipeline.name, targets, merge([schemas[name] for name in output.inputs]))


def _problem(pipeline: Pipeline, path: OptionPath, finding: Finding) -> Problem:
    """Return the problem at the option of the finding, or at the nearest option around it that the file has."""
    full = (*path, *finding.path)
    near = next((full[:end] for end in range(len(full), 0, -1) if full[:end] in pipeline.locations), ())
    line, column = pipeline.locations.get(near, (1, 1))
    return Problem(pipeline.file, line, column, finding.code, json_path(full), finding.message, finding.hint, finding.severity)
