"""Conflicts of outputs and inputs: sinks that share a target, sinks that feed their own source, sources with one reader only.

`check_targets` checks one file, `find_conflicts` several pipelines of one command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import NamedTuple

from etl.api import Component, Sink, Source
from etl.config.checks.graph import find_upstream
from etl.config.layout import Layout, Part
from etl.config.model import OptionPath, Pipeline
from etl.config.options.read_options import with_reads
from etl.config.options.variants import ComponentVariant
from etl.config.problems import Problem, Severity, in_file_order, json_path
from etl.config.report import Report

DEAD_LETTERS = "dead_letters"

_OWN_FILES = "a file that the pipeline reads and writes never ends: write to another folder, or `exclude` it in the source"
_LOOP = "events would go round: write to another one, or make sure that a filter ends the loop"


# ── One file ──────────────────────────────────────────────────────────────────────────────────────


def check_targets(layout: Layout, built: Mapping[OptionPath, ComponentVariant], report: Report) -> None:
    """Report sinks of one file that write to the same target, or to what their own source reads."""
    parts = {name: sink.part for name, sink in layout.sinks.items()}
    if layout.dead_letters:
        parts[DEAD_LETTERS] = layout.dead_letters
    sinks = {name: sink for name, part in parts.items() if (sink := _sink(built, part))}
    reported = set()
    for first, second in combinations(sinks, 2):
        shared = shared_target(sinks[first], sinks[second])
        if shared and second not in reported:
            reported.add(second)
            message = f"sinks {first!r} and {second!r} both write to {shared}"
            report.add(parts[second].path, "shared-target", message, "give each its own, or one sink a list of streams", key=True)
    for name, sink in sinks.items():
        _check_own_source(name, sink, parts[name], layout, built, report)
    _check_exclusive(layout, built, report)


def _check_own_source(
    name: str, sink: Sink, part: Part, layout: Layout, built: Mapping[OptionPath, ComponentVariant], report: Report
) -> None:
    inputs = {ref.name for ref in layout.sinks[name].inputs} if name in layout.sinks else set(layout.sources)
    for source in find_upstream(inputs, layout) & layout.sources.keys():
        reader = _with_known_targets(built.get(layout.sources[source].path))
        if isinstance(reader, Source) and (target := read_target(reader, list_or_nothing(sink.writes))):
            message, hint, severity = _own(source, target)
            report.add(part.path, "reads-own-output", message, hint, key=True, severity=severity)


def _own(source: str, target: str) -> tuple[str, str, Severity]:
    if target.startswith("/"):
        return f"the sink writes to {target}, which source {source!r} reads", _OWN_FILES, "error"
    return f"the sink writes to {target}, which source {source!r} reads", _LOOP, "warning"


def _check_exclusive(layout: Layout, built: Mapping[OptionPath, ComponentVariant], report: Report) -> None:
    first: dict[str, str] = {}
    for name, part in layout.sources.items():
        for what in _exclusive(_with_known_targets(built.get(part.path))):
            other = first.setdefault(what, name)
            if other != name:
                message = f"sources {other!r} and {name!r} both read {what}, which only one can"
                report.add(part.path, "shared-input", message, "read it once, and give `from` to several streams", key=True)


def _sink(built: Mapping[OptionPath, ComponentVariant], part: Part) -> Sink | None:
    found = _with_known_targets(built.get(part.path))
    return found if isinstance(found, Sink) else None


def _with_known_targets(made: ComponentVariant | None) -> Component | None:
    """A component of which no wrong option decides what it reads and writes."""
    if made is None:
        return None
    wrong = made.wrong & type(made.component).model_fields.keys()
    return made.component if not wrong or not wrong & with_reads(made.component, _all_targets)[1] else None


def _all_targets(component: Component) -> object:
    """Everything that this module calls on a source or sink."""
    if isinstance(component, Sink):
        return list_or_nothing(component.targets), list_or_nothing(component.writes)
    return isinstance(component, Source) and (_reads(component, "/"), _exclusive(component))


# ── Targets of components ─────────────────────────────────────────────────────────────────────────


def shared_target(one: Sink, other: Sink) -> str | None:
    """The target that both write to, in words: the same one, or one in the folder of the other."""
    return _find_shared(list_or_nothing(one.targets), list_or_nothing(other.targets))


def _find_shared(ones: Iterable[str], others: Iterable[str]) -> str | None:
    for mine, theirs in product(ones, others):
        if mine == theirs:
            return repr(mine)
        for folder, inside in ((mine, theirs), (theirs, mine)):
            if inside.startswith(f"{folder}/"):
                return f"{folder + '/'!r}, where {inside!r} lies"
    return None


def read_target(source: Source, targets: Iterable[str]) -> str | None:
    """The first of these targets that the source reads."""
    return next((target for target in targets if _reads(source, target)), None)


def _reads(source: Source, target: str) -> bool:
    try:
        return source.reads(target)
    except Exception:  # options that its own check refuses
        return False


def list_or_nothing(question: object) -> list[str]:
    """What a component names, as `Sink.writes`; nothing if its options are wrong."""
    try:
        return list(question())  # type: ignore[operator]
    except Exception:  # options without a known target: the sink's own check reports them
        return []


def _exclusive(source: object) -> list[str]:
    return list(dict.fromkeys(list_or_nothing(source.exclusive))) if isinstance(source, Source) else []


# ── Pipelines of one command ──────────────────────────────────────────────────────────────────────


class Writer(NamedTuple):
    """A sink of a pipeline with its targets: as other sinks name them, and as sources do."""

    pipeline: Pipeline
    name: str
    targets: Sequence[str]
    writes: Sequence[str]

    def problem(self, code: str, message: str, hint: str, severity: Severity = "error") -> Problem:
        """A problem of this sink, at its location in its file."""
        path: OptionPath = (DEAD_LETTERS,) if self.name == DEAD_LETTERS else ("sinks", self.name)
        return _problem(self.pipeline, path, code, message, hint, severity)

    @property
    def called(self) -> str:
        """``sink 'out' of pipeline 'ssh' (ssh.yaml)``."""
        return f"sink {self.name!r} of pipeline {self.pipeline.name!r} ({self.pipeline.file})"


def find_conflicts(pipelines: Sequence[Pipeline], severity: Severity = "error") -> list[Problem]:
    """Find what pipelines of one command share and must not: outputs, inputs, names; and loops over several of them.

    Each problem has the severity ``severity``: a warning where the pipelines may run at different times.
    """
    feeds = _Feeds(pipelines)
    outputs = [*_same_targets(combinations(feeds.writers, 2)), *_loops(pipelines, feeds)]
    problems = in_file_order([*_same_names(pipelines), *_same_inputs(pipelines), *outputs])
    return problems if severity == "error" else [replace(problem, severity=severity) for problem in problems]


def find_new_conflicts(pipeline: Pipeline, others: Sequence[Pipeline]) -> list[Problem]:
    """Find the conflicts of one pipeline with ``others``: those of `find_conflicts` that are in its file. The others are not
    compared with each other."""
    pipelines = [*others, pipeline]
    feeds, last = _Feeds(pipelines), len(others)
    found = [*_same_names(pipelines), *_same_inputs(pipelines)]
    found += _same_targets((before, feeds.writers[last]) for before in feeds.writers[:last])
    if circle := _circle_from(last, feeds):
        found.append(_loop_problem(feeds[last][circle[1]], [pipelines[at].name for at in [*circle, last]]))
    return in_file_order(problem for problem in found if problem.file == pipeline.file)


def _writers(pipeline: Pipeline) -> list[Writer]:
    sinks = {name: output.sink for name, output in pipeline.sinks.items()}
    if pipeline.dead_letters:
        sinks[DEAD_LETTERS] = pipeline.dead_letters
    return [Writer(pipeline, name, list_or_nothing(sink.targets), list_or_nothing(sink.writes)) for name, sink in sinks.items()]


def _same_names(pipelines: Sequence[Pipeline]) -> Iterator[Problem]:
    first: dict[str, Pipeline] = {}
    for one in pipelines:
        other = first.setdefault(one.name, one)
        if other is not one:
            message = f"the pipeline is called {one.name!r}, and so is {other.file}: they share a state folder"
            hint = "one command runs pipelines of different names: give one of them another `name:`"
            yield _problem(one, ("name",), "same-pipeline-name", message, hint, "warning")


def _same_targets(pairs: Iterable[tuple[Sequence[Writer], Sequence[Writer]]]) -> Iterator[Problem]:
    for before, mine in pairs:
        for writer, other in product(mine, before):
            if shared := _find_shared(other.targets, writer.targets):
                hint = "give each its own: in one command they would write over each other"
                yield writer.problem("shared-target", f"{other.called} writes to {shared}, too", hint)


def _same_inputs(pipelines: Sequence[Pipeline]) -> Iterator[Problem]:
    first: dict[str, Pipeline] = {}
    for one in pipelines:
        for name, source in one.sources.items():
            taken = [what for what in _exclusive(source) if what in first]
            if taken:
                other = first[taken[0]]
                message = f"pipeline {other.name!r} ({other.file}) reads {' and '.join(taken)}, too, which only one can"
                yield _problem(one, ("sources", name), "shared-input", message, "run each in a command of its own")
        first |= {what: one for source in one.sources.values() for what in _exclusive(source) if what not in first}


class _Feeds(dict[int, Mapping[int, Writer]]):
    """Pipeline → the pipelines that read what it writes, and its sink that writes it; by number, found when it is needed."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        super().__init__()
        self._pipelines = pipelines
        self.writers = [_writers(pipeline) for pipeline in pipelines]

    def __missing__(self, at: int) -> Mapping[int, Writer]:
        others, mine = enumerate(self._pipelines), self.writers[at]
        self[at] = {to: writer for to, other in others if to != at and (writer := _find_feeding_writer(mine, other))}
        return self[at]


def _loops(pipelines: Sequence[Pipeline], feeds: _Feeds) -> Iterator[Problem]:
    """Pipelines that feed each other in a circle; each circle once, at the sink that closes it."""
    for begin in range(len(pipelines)):
        circle = _circle_from(begin, feeds)
        if circle and begin == min(circle):
            yield _loop_problem(feeds[circle[-1]][begin], [pipelines[at].name for at in [*circle, begin]])


def _loop_problem(writer: Writer, names: Iterable[str]) -> Problem:
    message = f"pipelines feed each other: {' → '.join(map(repr, names))}"
    return writer.problem("reads-own-output", message, _LOOP, "warning")


def _find_feeding_writer(writers: Iterable[Writer], other: Pipeline) -> Writer | None:
    """One of these that writes what a source of the other pipeline reads."""
    readers = [source for source in other.sources.values() if isinstance(source, Source)]
    return next((writer for writer in writers if any(read_target(source, writer.writes) for source in readers)), None)


def _circle_from(begin: int, feeds: Mapping[int, Mapping[int, Writer]]) -> list[int]:
    """The shortest path from a pipeline back to itself; empty if there is none."""
    paths, visited = [[begin]], {begin}
    while paths:
        path = paths.pop(0)
        for to in feeds[path[-1]]:
            if to == begin:
                return path
            if to not in visited:
                visited.add(to)
                paths.append([*path, to])
    return []


def _problem(pipeline: Pipeline, path: OptionPath, code: str, message: str, hint: str, severity: Severity = "error") -> Problem:
    line, column = pipeline.locations.get(path, (1, 1))
    return Problem(pipeline.file, line, column, code, json_path(path), message, hint, severity)
