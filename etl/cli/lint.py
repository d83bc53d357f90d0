"""``etl lint``: every problem of every file."""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from etl.cli.config_options import PipelineFile, load_environment
from etl.lean import defer

if TYPE_CHECKING:
    from etl.config import Problem
    from etl.config.problems import Severity

_SUFFIXES = (".yaml", ".yml", ".sql")
_PIPELINE = re.compile(rb"^[\"']?sources?[\"']?\s*:", re.MULTILINE)
TESTS = re.compile(rb"^[\"']?tests[\"']?\s*:", re.MULTILINE)
_USUAL = (".", "pipelines")
_COLOURS = {"error": "red", "warning": "yellow"}


@click.command()
@click.argument("paths", nargs=-1, type=PipelineFile(exists=True))
@click.option(
    "--format", "style", type=click.Choice(["text", "json", "github"]), default="text", help="How problems are printed."
)
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--env-file", type=click.Path(exists=True, dir_okay=False), help="File of NAME=value lines for ${NAME}.")
@click.option("--connect", is_flag=True, help="Without errors: reach every table, source and sink, log in, look. Writes nothing.")
def command(paths: Sequence[Path], style: str, strict: bool, env_file: str | None, connect: bool) -> None:
    """Check pipeline files without running them.

    PATHS are files and folders; folders are searched for pipelines. Without PATHS: this folder and pipelines/. PATHS are
    checked as one command for `etl run`, too: outputs, inputs and names that pipelines share are errors in files that are
    named, warnings in those of a folder, which may hold alternatives.

    \b
    Examples:
      etl lint
      etl lint ssh.yaml --strict
      etl lint pipelines --format github
      etl lint ssh.yaml --connect
    """
    files = pipeline_files(paths) if paths else _usual_files()
    if not files:
        folders = " or ".join(repr(str(path)) for path in paths) or "this folder or in pipelines/"
        raise click.UsageError(f"there is no pipeline file in {folders}; name one, such as: etl lint pipeline.yaml")
    alternatives = any(path.is_dir() for path in paths)  # a folder may hold them
    as_command: Severity | None = None if not paths else "warning" if alternatives else "error"
    with _without_pauses():
        if not connect:  # --connect probes in several threads, and two must not load a module at once
            defer("pyarrow.compute")
        from etl.config import check

        problems = check(files, load_environment(env_file), as_command)
    if connect and not any(problem.severity == "error" for problem in problems):
        problems = _probe_files(files, problems, load_environment(env_file))
    _PRINTERS[style](problems)
    click.echo(summary(len(files), problems), err=True)
    if any(strict or problem.severity == "error" for problem in problems):
        click.get_current_context().exit(1)


def _probe_files(files: Iterable[Path], problems: Iterable[Problem], env: Mapping[str, str]) -> list[Problem]:
    """The problems with the findings of the pipelines' probes."""
    from etl.cli.connect import probe_pipeline
    from etl.config.loader import inspect, is_test_file
    from etl.config.problems import in_file_order

    pipelines = [inspect(file, env).pipeline for file in files if not is_test_file(file)]
    return in_file_order([*problems, *(found for one in pipelines if one for found in probe_pipeline(one, env))])


@contextmanager
def _without_pauses() -> Iterator[None]:
    """Without garbage collection and BLAS threads, which each take a tenth of the time: imports and checks make objects that
    stay."""
    collecting = gc.isenabled()
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        yield
    finally:
        gc.freeze()  # moves new objects to the oldest generation: gc.enable() would collect them at once
        gc.unfreeze()
        if collecting:
            gc.enable()


def pipeline_files(paths: Iterable[Path]) -> list[Path]:
    """Files as named, and the pipelines in named folders, each once."""
    found: list[Path] = []
    for path in paths:
        found += _walk(path) if path.is_dir() else [path]
    return list(dict.fromkeys(found))


def summary(files: int, problems: Sequence[Problem]) -> str:
    """``2 files, 1 error, 3 warnings``."""
    counts = Counter(problem.severity for problem in problems)
    parts = [_count(counts[name], name) for name in ("error", "warning") if counts[name]]
    return ", ".join([_count(files, "file"), *(parts or ["no problems"])])


def print_text(problems: Sequence[Problem], err: bool = False) -> None:
    """Problems as lines, coloured on a terminal."""
    for problem in problems:
        location, _, rest = str(problem).partition(f" {problem.code}: ")
        code = click.style(problem.code, fg=_COLOURS[problem.severity], bold=True)
        rest, hint_word, hint = rest.partition("\n  hint: ")
        text = f"{click.style(location, bold=True)} {code}: {rest}"
        click.echo(text + (f"\n  {click.style('hint:', fg='cyan')} {hint}" if hint_word else ""), err=err)


def _print_json(problems: Sequence[Problem]) -> None:
    import json

    click.echo(json.dumps([problem.as_dict() for problem in problems], indent=2))


def _print_github(problems: Sequence[Problem]) -> None:
    """Workflow commands, which GitHub shows beside the changed line."""
    for problem in problems:
        location = f"file={_property(problem.file)},line={problem.line},col={problem.column},title={_property(problem.code)}"
        text = f"{problem.path}: {problem.message}" + (f"\nhint: {problem.hint}" if problem.hint else "")
        click.echo(f"::{problem.severity} {location}::{_data(text)}")


_PRINTERS: Mapping[str, Callable[[Sequence[Problem]], None]] = {
    "text": print_text,
    "json": _print_json,
    "github": _print_github,
}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _usual_files() -> list[Path]:
    return [path for name in _USUAL if Path(name).is_dir() for path in sorted(Path(name).iterdir()) if _is_pipeline(path)]


def _walk(folder: Path) -> list[Path]:
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [path for name in sorted(names) if _is_pipeline(path := Path(parent, name))]
    return found


def _is_pipeline(path: Path) -> bool:
    """Whether a file has a line that begins with ``source:`` or ``sources:``, or the name and key of a file of tests. A file
    that cannot be read counts."""
    if path.suffix not in _SUFFIXES or not path.is_file():
        return False
    if path.suffix == ".sql":
        return True
    try:
        data = path.read_bytes()[: 1 << 20]
        return bool(_PIPELINE.search(data) or (path.stem.endswith("_test") and TESTS.search(data)))
    except OSError:
        return True
