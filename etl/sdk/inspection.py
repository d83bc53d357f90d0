"""What streams, outputs and pipelines have in common: looking at them before, or instead of, a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from etl.config.loader import CheckedPipeline, inspect_document
from etl.config.model import Pipeline
from etl.config.problems import ConfigError, Problem, in_file_order
from etl.sdk.assembly import Assembled, assemble
from etl.sdk.call_site import call_site
from etl.sdk.nodes import Definition

if TYPE_CHECKING:
    from etl.config.model import Pipeline as Model
    from etl.config.problems import Problem
    from etl.sdk.trial import Input, Trial

DEFAULT_SAMPLE = 1_000
"""Events of each source that a sample reads."""


class Text(str):
    """A text of several lines that a prompt shows as it is."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self)}</pre>"


class Graph:
    """A picture, as SVG."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture to a file, ``….svg``; one that exists is replaced."""
        from pathlib import Path

        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.svg


class Problems(tuple["Problem", ...]):
    """What lint found, in the order of the files; empty if there is nothing."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems with which the pipeline cannot run."""
        return tuple(problem for problem in self if problem.severity == "error")

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no problems"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return Text(str(self))._repr_html_()


class Inspectable:
    """Methods of streams, outputs and pipelines that change nothing outside."""

    def _definition(self) -> Definition:
        raise NotImplementedError

    def lint(self, env: Mapping[str, str] | None = None) -> Problems:
        """Check everything, as ``etl lint`` does; each problem has the line of Python that caused it.

        ``env`` replaces the environment, of which values such as ``${NAME}`` are taken.
        """

        return Problems(check(self._definition(), env).problems)

    def model(self, env: Mapping[str, str] | None = None) -> Model:
        """The checked pipeline that the engine runs. Raises ConfigError with all problems."""
        from etl.sdk.call_site import refuse_while_loading

        refuse_while_loading()
        return load(self._definition(), env)

    def graph(self) -> Graph:
        """A picture: sources, streams with their steps, sinks. A notebook shows it, and a pipeline itself as its picture."""
        from etl.sdk.assembly import assemble
        from etl.sdk.graph import picture

        return Graph(picture(assemble(self._definition()).value).svg())

    def _repr_html_(self) -> str:
        from etl.config.problems import ConfigError

        try:
            return self.graph()._repr_html_()
        except ConfigError as error:
            return Text(str(error))._repr_html_()

    def explain(self, state: str | None = None, env: Mapping[str, str] | None = None) -> Text:
        """Queries, lanes, fields and guarantees, as ``etl explain`` prints them."""
        from etl.delivery.dead_letters import SCHEMA
        from etl.plan.planner import plan
        from etl.plan.render import render_plan
        from etl.running.state_folders import dead_letters
        from etl.spark.state.folder import StateFolder

        pipeline = self.model(env)
        return Text("\n".join(render_plan(plan(pipeline, dead_letters(pipeline, StateFolder.of(pipeline.name, state)), SCHEMA))))

    def test(
        self,
        events: Input,
        *,
        observe: Sequence[str] = (),
        now: str | None = None,
        drain: bool = True,
        tables: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Trial:
        """Run the real steps on these events, and return what comes out; Spark starts only if a step needs it.

        Args:
            events: Lines or mappings of fields for the only source, or a mapping of sources to such lists. Inner lists
                are micro-batches; ``{"quiet": "30s"}`` is a time without events.
            observe: Streams or sinks whose events to return; default: all sinks.
            now: The time at which the test begins, in ISO 8601.
            drain: Close open windows at the end.
            tables: Rows in place of those of look-up tables, by the table's name.
            env: Replaces the environment, of which values such as ``${NAME}`` are taken.
        """
        from etl.sdk.trial import try_events

        return try_events(self.model(env), events, call_site(("events",)), observe, now, drain, tables)

    def sample(
        self,
        *,
        read: int = DEFAULT_SAMPLE,
        observe: Sequence[str] = (),
        drain: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Trial:
        """Run the real steps on the first ``read`` events of each source, and return what comes out.

        Nothing is delivered or remembered, and sources give the same events again.
        """
        from etl.sdk.trial import try_sample

        return try_sample(self.model(env), read, observe, drain)

    def show(self, n: int = 10, *, events: Input | None = None, read: int = DEFAULT_SAMPLE, drain: bool = True) -> None:
        """Print the first ``n`` events that come out, as a table: of a `sample`, or of these ``events``."""
        from etl.sdk.display import display
        from etl.sdk.trial import Trial, try_events, try_sample

        if not isinstance(n, int) or n < 1:
            raise TypeError(f"show() takes a number of events, such as show(10), and not {n!r}; events=[…] are those to try")
        pipeline = self.model()
        if events is None:
            found = try_sample(pipeline, read, (), drain)
        else:
            found = try_events(pipeline, events, call_site(("n",)), (), None, drain)
        display(Trial({name: found[name].first(n) for name in found.outputs}, found.dead_letters.first(n)))


def check(definition: Definition, env: Mapping[str, str] | None = None) -> CheckedPipeline:
    """The pipeline, None when there are errors, and all problems."""
    try:
        assembled = assemble(definition)
    except ConfigError as error:
        return CheckedPipeline(None, error.problems)
    file = definition.site.file
    checked = inspect_document(file, assembled.document(), os.environ if env is None else env)
    problems = [_locate(problem, file, assembled) for problem in checked.problems]
    pipeline = checked.pipeline and _with_locations(checked.pipeline, assembled)
    return CheckedPipeline(pipeline, tuple(in_file_order(problems)))


def load(definition: Definition, env: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline. Raises ConfigError with all problems when one is an error."""
    checked = check(definition, env)
    if checked.pipeline is None:
        raise ConfigError(checked.problems)
    return checked.pipeline


def _locate(problem: Problem, file: str, assembled: Assembled) -> Problem:
    """The problem at its location in Python; one in another file, such as a file of rules, stays there."""
    if problem.file != file:
        return problem
    found, (line, column) = assembled.locate((problem.line, problem.column))
    return replace(problem, file=found, line=line, column=column)


def _with_locations(pipeline: Pipeline, assembled: Assembled) -> Pipeline:
    """The pipeline with the locations of those parts that are in its own file, which messages of a run name by line only."""
    found = {path: assembled.locate(location) for path, location in pipeline.locations.items()}
    return replace(pipeline, locations={path: at for path, (file, at) in found.items() if file == pipeline.file})
