"""A whole pipeline in Python: read from YAML or built, checked, tried, written as YAML, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from errno import EEXIST
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from etl.sdk.call_site import Site, call_site
from etl.sdk.functions import Function, as_function, relocate
from etl.sdk.inspection import Inspectable
from etl.sdk.nodes import Definition
from etl.sdk.option_names import checks_names
from etl.sdk.stream import DeadLetterOutput, Output, Stream, Table
from etl.sdk.values import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.running.messages import Message
    from etl.sdk.generated.options import RunOptions
    from etl.sdk.running import Run
    from etl.testing.results import Result


@final
class Pipeline(Inspectable):
    """Sources, streams and sinks under one name: what a YAML file says, as a value of Python."""

    def __init__(self, definition: Definition) -> None:
        self._whole = definition

    @property
    def name(self) -> str | None:
        """The name, by which its state folder is called."""
        return self._whole.name

    @classmethod
    def from_yaml(cls, path_or_text: str | PathLike[str]) -> Pipeline:
        """A pipeline file, by its path, or as a text of several lines. Raises ConfigError for a file that is none.

        Values such as ``${NAME}`` stay as they are written, until the pipeline is checked or run.
        """
        from etl.sdk.reading import read_yaml

        return cls(read_yaml(path_or_text))

    @classmethod
    def from_sql(cls, path_or_text: str | PathLike[str]) -> Pipeline:
        """An SQL script, by its path, which ends in ``.sql``, or as text. Raises ConfigError with its problems."""
        from etl.sdk.reading import read_sql

        return cls(read_sql(path_or_text))

    def __getitem__(self, name: str) -> Stream:
        """A source or stream by its name in the file, to continue from."""
        from etl.sdk.assembly import assemble

        nodes = assemble(self._whole).nodes
        if name not in nodes:
            raise KeyError(f"there is no source or stream {name!r}; there are: {', '.join(nodes)}")
        return Stream(nodes[name])

    def add(self, *outputs: Output | Stream | DeadLetterOutput | Table) -> Pipeline:
        """This pipeline with more outputs."""
        return Pipeline(_with_outputs(self._whole, outputs))

    def to_yaml(self, path: str | PathLike[str] | None = None, *, overwrite: bool = False) -> str:
        """The YAML file that says the same; with ``path`` also written there.

        Values are written as they were given: a secret stays out of the file if it is given as ``${NAME}``. A file with the same
        text is left as it is. Raises FileExistsError for a file with any other text, such as one that a user has edited, unless
        ``overwrite`` is true.
        """
        from etl.config.document.yaml_text import yaml_text
        from etl.sdk.assembly import assemble

        value = assemble(self._whole).value
        if path is not None and "functions" in value:
            value["functions"] = relocate(value["functions"], Path(self._whole.site.file).parent, Path(path).parent)
        text = yaml_text(value)
        if path is not None:
            _write_pipeline_file(Path(path), text, overwrite)
        return text

    def run_tests(self, env: Mapping[str, str] | None = None) -> list[Result]:
        """Run the pipeline's own tests, those under ``tests`` of its file: ``result.passed``, ``.name``, ``.lines()``."""
        from etl.config.cases.case_file import Suite
        from etl.sdk.session import run_plan
        from etl.testing.results import result

        model = self.model(env)
        suite = Suite(model.file, model, model.tests, model.locations)
        return [result(suite, case, run_plan) for case in model.tests]

    def run(
        self,
        *,
        drain: bool = False,
        limit: int | None = None,
        state: str | PathLike[str] | None = None,
        spark: SparkSession | None = None,
        master: str = "local[*]",
        settings: Mapping[str, str] | None = None,
        new_state: Sequence[str] = (),
        max_dead: float | None = None,
        on_message: Callable[[Message], None] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Run:
        """Read the events that exist now, deliver them, and end: ``etl run --once``. Raises EtlError when the run fails.

        Args:
            drain: Close all open windows at the end.
            limit: End after this many events were read.
            state: The folder of checkpoints and dead letters; default: ``$ETL_STATE``, or ``~/.local/state/sluice``, and in it
                a folder with the pipeline's name. A second run with the same state reads only what is new.
            spark: A session of your own to run on; default: one that this process starts once, and keeps.
            master: Spark's master: ``local[n]`` or a cluster's.
            settings: Spark's settings that differ from ours.
            new_state: Steps that begin with empty state, and those that are gone, whose state is dropped.
            max_dead: The share of events that may become dead letters; with a larger one the run fails.
            on_message: Called with each message, from several threads.
            env: Replaces the environment, of which values such as ``${NAME}`` are taken.
        """
        request = {"drain": drain, "limit": limit, "max_dead": max_dead, "new_state": new_state}
        run = self._start(True, state, spark, master, settings, on_message, env, request)
        try:
            return run.wait()
        except KeyboardInterrupt:
            run.stop()
            raise

    def start(
        self,
        *,
        limit: int | None = None,
        state: str | PathLike[str] | None = None,
        spark: SparkSession | None = None,
        master: str = "local[*]",
        settings: Mapping[str, str] | None = None,
        new_state: Sequence[str] = (),
        max_dead: float | None = None,
        on_message: Callable[[Message], None] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Run:
        """Follow the sources in the background until ``.stop()``: ``etl run``. The arguments are those of `run`."""
        request = {"limit": limit, "max_dead": max_dead, "new_state": new_state}
        return self._start(False, state, spark, master, settings, on_message, env, request)

    def _start(
        self,
        once: bool,
        state: str | PathLike[str] | None,
        spark: SparkSession | None,
        master: str,
        settings: Mapping[str, str] | None,
        on_message: Callable[[Message], None] | None,
        env: Mapping[str, str] | None,
        request: Mapping[str, Any],
    ) -> Run:
        from etl.sdk.assembly import assemble
        from etl.sdk.running import start

        folder = None if state is None else str(state)
        return start(
            self.model(env),
            assemble(self._whole).value,
            spark=spark,
            master=master,
            settings=settings,
            on_message=on_message,
            once=once,
            state=folder,
            **request,
        )

    def _definition(self) -> Definition:
        return self._whole

    def __repr__(self) -> str:
        outputs = len(self._whole.outputs)
        return f"<Pipeline {self.name!r}: {outputs} output{'' if outputs == 1 else 's'}>"


@checks_names
def pipeline(
    name: str,
    *outputs: Output | Stream | DeadLetterOutput | Table,
    description: str | None = None,
    run: RunOptions | None = None,
    tests: Mapping[str, Any] | None = None,
    functions: Sequence[Function | Callable[..., Any]] = (),
) -> Pipeline:
    """A pipeline of these outputs.

    Args:
        name: Its name, by which its state folder is called: a letter, then letters, digits, ``_`` and ``-``.
        outputs: Streams with their sinks; a stream without one is printed. Also ``dead_letters.to_…(…)``, and tables that
            no step names as objects.
        description: What it is for.
        run: How it runs, such as ``{"trigger": "200ms"}``.
        tests: Its tests, as the YAML file has them.
        functions: Functions of your own that expressions given as text call; those that ``col`` is given to come by
            themselves.
    """
    if not isinstance(name, str):
        raise TypeError(f"a pipeline begins with its name, such as pipeline('logins', …), and not with {name!r}")
    site = call_site(("name",))
    given = {"description": description, "run": run, "tests": tests}
    settings: dict[str, tuple[Any, Site]] = {key: (plain(one, (key,)), site) for key, one in given.items() if one is not None}
    declared = tuple(map(as_function, functions))
    return Pipeline(_with_outputs(Definition(name, site, settings=settings, functions=declared), outputs))


def _with_outputs(definition: Definition, outputs: Sequence[Output | Stream | DeadLetterOutput | Table]) -> Definition:
    for one in outputs:
        if isinstance(one, Output):
            definition = replace(definition, outputs=(*definition.outputs, one._output))
        elif isinstance(one, Stream):
            definition = replace(definition, streams=(*definition.streams, one._node))
        elif isinstance(one, Table):
            definition = replace(definition, tables=(*definition.tables, one._node))
        elif isinstance(one, DeadLetterOutput):
            if definition.dead_letters is not None:
                raise ValueError("a pipeline has one sink of dead letters")
            definition = replace(definition, dead_letters=one.part)
        else:
            raise TypeError(f"a pipeline is made of streams, their sinks and tables, and not of {type(one).__name__}")
    return definition


def _write_pipeline_file(path: Path, text: str, overwrite: bool) -> None:
    """Write a pipeline file, unless it has the text already. Raises FileExistsError for another text, without ``overwrite``."""
    written = text.encode()
    if path.is_file() and not overwrite:
        found = path.read_bytes()
        if found == written:
            return
        if found:
            raise FileExistsError(
                EEXIST, "the file exists with other content: choose another name, or replace it with overwrite=True", str(path)
            )
    path.write_bytes(written)
