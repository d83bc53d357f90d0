"""A file of tests made of the studio's lines: some of them, and the events and dead letters that they become."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from etl.api import EtlError, FrameSource
from etl.config.cases.case_file import inspect_tests
from etl.config.loader import inspect_content
from etl.config.model import Pipeline
from etl.plan.query_plan import Plan
from etl.testing import update
from etl.testing.on_lane import run_on_lane, runs_on_lane
from etl.testing.trial import run_case
from etl.testing.yaml_writer import format_scalar

NAME = "lines of the studio"
MAX_LINES = 12
"""Lines of a test: a person reads what is expected of each."""
LONGEST = 2_000
"""Characters of a line in a test."""


def draft_test(text: str, lines: str, name: str, now: str | None = None) -> str:
    """The text of ``NAME_test.yaml`` for a pipeline. Raises EtlError if the pipeline has errors, or Spark runs a step of it."""
    checked = inspect_content(f"{name}.yaml", text.encode())
    if checked.pipeline is None:
        raise EtlError("a test is made of a pipeline without errors")
    with TemporaryDirectory(prefix="etl-studio-") as folder:
        (Path(folder) / f"{name}.yaml").write_text(text, "utf-8")
        tests = Path(folder) / f"{name}_test.yaml"
        tests.write_text("".join(_test_lines(checked.pipeline, lines, now)), "utf-8")
        suite = inspect_tests(tests).suite
        if suite is None:
            raise EtlError("the lines cannot be written as a test")
        case = suite.cases[0]
        update.write(str(tests), list(update.edits(suite, case, run_case(suite, case, _run_here))))
        return tests.read_text("utf-8")


def _test_lines(pipeline: Pipeline, lines: str, now: str | None) -> Iterator[str]:
    given = [line for line in lines.replace("\r\n", "\n").split("\n") if line.strip() and len(line) <= LONGEST][:MAX_LINES]
    source = next(name for name, source in pipeline.sources.items() if not isinstance(source, FrameSource))
    yield f"tests:\n  {NAME}:\n"
    if now:
        yield f"    now: {format_scalar(now)}\n"
    pad = " " * 6
    if len(pipeline.sources) > 1:
        yield f"    input:\n      {format_scalar(source)}:\n"
        pad += "  "
    else:
        yield "    input:\n"
    yield from (f"{pad}- {format_scalar(line)}\n" for line in given)


def _run_here(plan: Plan, folder: Path, drain: bool) -> None:
    """Run the queries with stateful steps in this process."""
    for query in plan.queries:
        if query.frame is None:
            continue
        if not runs_on_lane(query):
            raise EtlError(f"Spark runs a step of query {query.name!r}; write the test, and fill it in with etl test --update")
        run_on_lane(plan, query, folder)
