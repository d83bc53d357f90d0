"""``etl test``: the tests of pipelines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from etl.api import nearest
from etl.cli.activity import activity
from etl.cli.config_options import add_config_options, load_environment, nearest_file
from etl.cli.lint import TESTS, pipeline_files, print_text
from etl.config.cases.case import Case
from etl.config.cases.case_file import Suite, inspect_tests
from etl.config.problems import Problem
from etl.lean import forbid
from etl.resources import recipes, scripts
from etl.testing import update
from etl.testing.edits import Edit
from etl.testing.on_spark import session
from etl.testing.results import Result, result
from etl.testing.trial import LETTERS, CapturedEvents, OnSpark, wants_spark
from etl.testing.yaml_writer import format_flow_mapping

MAX_SHOWN = 50
"""Maximum number of events of one output that a test without expectations prints."""

MAX_NAMES = 12
"""Maximum number of names of tests that are listed when none was selected."""

_SUFFIXES = (".yaml", ".yml")
_USUAL = (".", "pipelines", "tests")

EXAMPLES = """
\b
Examples:
  etl test                          all tests in this folder, pipelines/ and tests/
  etl test ssh.yaml -k "failed login"
  etl test ssh-failed-logins        a recipe's own tests
  etl test ssh.yaml --update        what comes out becomes what is expected
"""


@click.command("test", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option("-k", "requested", multiple=True, metavar="NAME", help="Only tests whose name contains NAME; may be repeated.")
@click.option(
    "--junit",
    "report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write results as JUnit XML; an earlier report is replaced.",
)
@click.option("--update", "updates", is_flag=True, help="Write what comes out into the files as what is expected.")
@add_config_options
def command(
    paths: Sequence[str],
    requested: Sequence[str],
    report: Path | None,
    updates: bool,
    overrides: tuple[str, ...],
    env_file: str | None,
) -> None:
    """Run the tests of pipelines: lines in, events out, through the real steps.

    PATHS are pipelines, files named *_test.yaml, folders and recipes. Spark is started, once, only when a test looks
    at what a window or another step of Spark's gives. A test that expects nothing prints what comes out.
    """
    if report:
        _prepare_report(report)
    files = test_files(paths)
    suites, problems = _suites(files, load_environment(env_file), overrides)
    print_text(problems, err=True)
    selected = [(suite, case) for suite in suites for case in suite.cases if _is_selected(case, requested)]
    broken = any(problem.severity == "error" for problem in problems)
    if not selected and not broken:
        raise click.UsageError(_describe_no_tests(requested, suites))
    if not any(wants_spark(suite, case) for suite, case in selected):
        forbid("pandas")
    began = time.monotonic()
    with session(lambda: click.echo("starting Spark", err=True)) as spark:
        results = list(_results(selected, spark, updates))
    if report:
        from etl.testing import junit

        junit.write(report, results)
    click.echo(_summary(results, time.monotonic() - began), err=True)
    if broken or not all(one.passed or one.updated for one in results):
        click.get_current_context().exit(1)


def _prepare_report(path: Path) -> None:
    """Make the report's folder, before any test runs. Raises UsageError for a file that is not a report: it would be lost."""
    from etl.testing.junit import is_replaceable

    if not is_replaceable(path):
        raise click.UsageError(
            f"--junit {path}: the file exists and is no JUnit report: choose another name, or remove it; tests are named "
            "without --junit"
        )
    path.parent.mkdir(parents=True, exist_ok=True)


def test_files(paths: Sequence[str]) -> list[Path]:
    """Files as named, those with tests in named folders, recipes. Raises UsageError for what there is not."""
    if not paths:
        return [file for name in _USUAL if Path(name).is_dir() for file in sorted(Path(name).iterdir()) if _has_tests(file)]
    found: list[Path] = []
    for name in paths:
        path = Path(name)
        if path.is_dir():
            found += [file for file in pipeline_files([path]) if _has_tests(file)]
        elif path.exists():
            found.append(_beside(path))
        elif name in (known := recipes() | scripts()):
            found.append(_beside(known[name]))
        else:
            near = nearest_file(name) or nearest(name, known)
            raise click.UsageError(f"there is no file, folder or recipe {name!r}{f'; {near}' if near else ''}")
    return list(dict.fromkeys(found))


def _beside(path: Path) -> Path:
    """The file of tests beside a script; other files, and a script without one, as they are."""
    tests = path.with_name(f"{path.stem}_test.yaml")
    return tests if path.suffix == ".sql" and tests.is_file() else path


def _has_tests(path: Path) -> bool:
    """Whether a YAML file has a line that begins with ``tests:``."""
    if path.suffix not in _SUFFIXES or not path.is_file():
        return False
    return bool(TESTS.search(path.read_bytes()[: 1 << 20]))


def _suites(files: Sequence[Path], env: Mapping[str, str], overrides: Sequence[str]) -> tuple[list[Suite], list[Problem]]:
    checked = [inspect_tests(file, env, overrides) for file in files]
    problems = [problem for one in checked for problem in one.problems if problem.severity == "error"]
    return [one.suite for one in checked if one.suite], list(dict.fromkeys(problems))


def _is_selected(case: Case, requested: Sequence[str]) -> bool:
    return not requested or any(part.lower() in case.name.lower() for part in requested)


def _describe_no_tests(requested: Sequence[str], suites: Sequence[Suite]) -> str:
    names = [case.name for suite in suites for case in suite.cases]
    names[MAX_NAMES:] = ["…"] if len(names) > MAX_NAMES else []
    if requested and names:
        return f"no test has {' or '.join(map(repr, requested))} in its name; tests are: {', '.join(names)}"
    return "no tests found; a pipeline file has them under 'tests:', or a file beside it whose name ends in _test.yaml"


def _results(selected: Sequence[tuple[Suite, Case]], spark: OnSpark, updates: bool) -> Iterator[Result]:
    shown = ""
    changes: dict[str, list[Edit]] = {}
    for suite, case in selected:
        if suite.file != shown:
            shown = suite.file
            click.echo(click.style(shown, bold=True))
        with activity(f"running the test {case.name!r}"):
            one = result(suite, case, spark)
        if updates and one.outcome is not None and (one.differences or one.shows):
            edits = list(update.edits(suite, case, one.outcome))
            changes.setdefault(suite.file, []).extend(edits)
            one.updated = bool(edits)
        _print(one)
        yield one
    for file, edits in changes.items():
        update.write(file, edits)


def _print(one: Result) -> None:
    word, colour = _verdict(one)
    click.echo(f"  {click.style(word, fg=colour, bold=True)}  {one.name}  ({one.seconds:.2f} s)")
    if not one.updated:
        for line in one.lines():
            colour = {"-": "red", "+": "green"}.get(line.lstrip()[:1], "") if line.startswith("  ") else ""
            click.echo(f"        {click.style(line, fg=colour or None)}")
    if one.shows and one.outcome is not None and not one.updated:
        for name, found in {**one.outcome.events, LETTERS: one.outcome.letters}.items():
            _print_events(name, found)


def _verdict(one: Result) -> tuple[str, str]:
    if one.updated:
        return "new ", "yellow"
    if one.error is not None:
        return "ERR ", "red"
    if one.differences:
        return "FAIL", "red"
    return ("show", "cyan") if one.shows else ("ok  ", "green")


def _print_events(name: str, found: CapturedEvents) -> None:
    if name == LETTERS and not found.rows:
        return
    click.echo(f"        {name}: {len(found.rows)}")
    for row in found.rows[:MAX_SHOWN]:
        click.echo(f"          - {format_flow_mapping(row)}")
    if len(found.rows) > MAX_SHOWN:
        click.echo(f"          … {len(found.rows) - MAX_SHOWN:,} more")


def _summary(results: Sequence[Result], seconds: float) -> str:
    counts = {
        "passed": sum(one.passed and not one.shows and not one.updated for one in results),
        "failed": sum(not one.passed and not one.updated for one in results),
        "updated": sum(one.updated for one in results),
        "shown": sum(one.shows and one.passed and not one.updated for one in results),
    }
    parts = [f"{number} {word}" for word, number in counts.items() if number] or ["no test ran"]
    return f"{', '.join(parts)} in {seconds:.1f} s"
