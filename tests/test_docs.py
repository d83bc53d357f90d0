"""The written documentation: its links, pipelines, commands and their output are right."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import connectors.components
import etl.steps.components
import parsers.components
from etl.cli.main import COMMANDS, LazyGroup, main
from etl.config import check
from etl.config.cases.case_file import inspect_tests
from etl.config.document.parser import read
from etl.testing.results import result

if TYPE_CHECKING:
    from etl.running.shared_session import SharedSession

ROOT = Path(__file__).parent.parent
WRITTEN = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted((ROOT / "docs").glob("*.md"))
ALL = WRITTEN + sorted((ROOT / "docs" / "reference").rglob("*.md"))

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"# (?P<name>[\w.\-]+)\n")
COMMAND = re.compile(r"(?:^\$ |`)(etl [^`\n]*)", re.MULTILINE)
PATH = re.compile(r"`((?:etl|connectors|parsers|tests|benchmarks|docs|schemas|samples|pipelines)/[\w/.\-]*)`")
MACHINE = re.compile(r"/(?:root|home|work)/|/tmp/|://(?:127\.|\d+\.\d+\.)")

each_page = pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
each_written = pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, language: str) -> list[str]:
    return [text for _, kind, text in FENCE.findall(page.read_text("utf-8")) if kind == language]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


def named(page: Path, *languages: str) -> dict[str, str]:
    """File name → text, of blocks whose first line is a comment with a name."""
    found = [(NAMED.match(text), text) for language in languages for text in blocks(page, language)]
    return {match["name"]: text for match, text in found if match}


def pipelines(page: Path) -> list[str]:
    """YAML blocks that are pipelines."""
    loaded = [(text, read(text.encode()).value) for text in blocks(page, "yaml")]
    return [text for text, value in loaded if isinstance(value, dict) and value.keys() & {"source", "sources"}]


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def sessions(page: Path) -> Iterator[tuple[str, str]]:
    """Command → what the page says it prints."""
    for text in blocks(page, "console"):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


def prints(folder: Path, line: str) -> str:
    """Standard output and error of a command in a folder, with the folder cut as the pages do."""
    words = [sys.executable, "-m", *shlex.split(line)]
    env = {**os.environ, "ETL_STATE": "state", "COLUMNS": "200"}
    pipe = subprocess.PIPE
    ran = subprocess.run(words, cwd=folder, env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True, check=False)
    return ran.stdout.replace(f"{folder.resolve()}/", "…/").replace(f"{folder}/", "…/")


@each_page
def test_links_have_targets(page: Path) -> None:
    targets = [target for target in LINK.findall(prose(page)) if "://" not in target]

    for target in targets:
        path, _, anchor = target.partition("#")
        leads_to = (page.parent / path).resolve() if path else page
        assert leads_to.exists(), target
        assert not anchor or anchor in anchors(leads_to), target


@each_page
def test_pages_contain_no_machine_path(page: Path) -> None:
    assert MACHINE.findall(page.read_text("utf-8")) == []


@pytest.mark.slow
@each_written
def test_pipelines_are_valid(page: Path, tmp_path: Path) -> None:
    for name, text in named(page, "python").items():
        (tmp_path / name).write_text(text)
    for number, text in enumerate(pipelines(page)):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)

        assert [str(problem) for problem in check([path]) if problem.severity == "error"] == []


def test_scripts_are_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "sql.md").read_text("utf-8")
    for text in re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        (tmp_path / "job.sql").write_text(text, "utf-8")

        assert check([tmp_path / "job.sql"], {}) == []


def test_pipelines_are_found() -> None:
    assert len(pipelines(ROOT / "README.md")) == 3
    assert len(pipelines(ROOT / "docs" / "guide.md")) == 3


@each_written
def test_commands_and_their_options_exist(page: Path) -> None:
    group = LazyGroup("etl")
    for line in COMMAND.findall(page.read_text("utf-8")):
        words = shlex.split(line, comments=True)[1:]
        name = next((word for word in words if not word.startswith("-")), None)
        command = group.get_command(click.Context(group), name) if name else None
        if isinstance(command, click.Group) and words[1:]:
            command = command.get_command(click.Context(command), words[1])
        assert command or words == ["--version"] or not words, line

        options = [one for one in (command.params if command else []) if isinstance(one, click.Option)]
        known = {name for option in options for name in option.opts} or {"--version"}
        takes_value = {name for option in options for name in option.opts if not option.is_flag}
        used = {word for before, word in zip(["", *words], words, strict=False) if before not in takes_value}
        assert {word for word in used if re.fullmatch(r"--?[a-z][a-z\-]*", word)} <= known, line


def test_the_guide_names_every_command() -> None:
    text = (ROOT / "docs" / "guide.md").read_text("utf-8")

    missing = [f"etl {name}" for name in COMMANDS if f"etl {name}" not in text]
    assert missing == [], "docs/guide.md says when a user needs the command"


def test_the_architecture_page_names_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([\w/]+/)` \| (.*) \|$", text, re.MULTILINE))
    packages = [path.parent for top in ("etl", "connectors", "parsers") for path in (ROOT / top).rglob("__init__.py")]

    def is_named(folder: str) -> bool:
        return folder in rows or any(
            folder.startswith(parent) and f"`{folder.removeprefix(parent)}`" in cell for parent, cell in rows.items()
        )

    folders = [f"{package.relative_to(ROOT).as_posix()}/" for package in packages]
    assert len(folders) > 30
    assert [folder for folder in folders if not is_named(folder)] == [], "the table of docs/architecture.md names them"


def test_the_architecture_page_names_every_folder_of_the_repository_and_of_tests() -> None:
    rows = dict(re.findall(r"^\| `([\w/]+/)` \| (.*) \|$", (ROOT / "docs" / "architecture.md").read_text("utf-8"), re.MULTILINE))
    tested = folders_in(ROOT / "tests") - folders_in(ROOT / "etl") - {"connectors", "parsers"}

    assert tested
    assert sorted(name for name in folders_in(ROOT) - {"out"} if f"{name}/" not in rows) == []
    assert sorted(name for name in tested if f"`{name}/`" not in rows["tests/"]) == []


def folders_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._"}


@each_written
def test_the_paths_that_a_page_names_exist(page: Path) -> None:
    paths = {path for path in PATH.findall(prose(page)) if "NAME" not in path}

    assert page.name == "CHANGELOG.md" or sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_the_readme_lists_every_component() -> None:
    table = prose(ROOT / "README.md").partition("## Components")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+` ?)+)\|", table, re.MULTILINE)

    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    ours = (etl.steps.components, connectors.components, parsers.components)
    there = {component.type for package in ours for component in package.COMPONENTS}
    assert listed == there, f"rows of the README's tables: add {there - listed or 'none'}, remove {listed - there or 'none'}"


def test_the_page_about_delivery_has_the_guarantee_of_every_sink() -> None:
    table = (ROOT / "docs" / "delivery.md").read_text("utf-8").partition("## Guarantees")[2].partition("\n## ")[0]

    listed = set(re.findall(r"^\| \[`(\w+)`\]\(reference/sinks/", table, re.MULTILINE))

    assert listed == {entry.type for entry in connectors.components.COMPONENTS if entry.family == "sink"}


WRONG = {
    "README.md": ("readme.yaml", [("message like", "mesage like"), ("USERNAME", "USERNAM")]),
    "docs/guide.md": ("first.yaml", [("USERNAME", "USERNAM"), ("path: logins", "pth: logins")]),
}
"""Page → the file on it that becomes ``wrong.yaml``, and what is changed."""


def prints_here(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `prints` returns, of a command that runs in this process, without Spark: workers of a session that runs already are in
    another folder."""
    monkeypatch.setenv("ETL_STATE", "state")
    monkeypatch.setenv("COLUMNS", "200")
    printed = StringIO()
    with chdir(folder), redirect_stdout(printed), redirect_stderr(printed), suppress(SystemExit):
        main(shlex.split(line)[1:])
    return printed.getvalue().replace(f"{folder.resolve()}/", "…/").replace(f"{folder}/", "…/")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "docs/guide.md", "docs/grok.md", "docs/scanner.md"])
def test_commands_without_spark_print_what_the_page_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / name
    files = named(page, "yaml")
    if name in WRONG:
        origin, changes = WRONG[name]
        files["wrong.yaml"] = files[origin]
        for right, wrong in changes:
            files["wrong.yaml"] = files["wrong.yaml"].replace(right, wrong)
    for file, text in files.items():
        (tmp_path / file).write_text(text)

    quick = [(line, printed) for line, printed in sessions(page) if re.match(r"etl (lint|explain|graph|recipes|--version)", line)]

    assert quick
    for line, printed in quick:
        now = prints_here(tmp_path, line, monkeypatch)
        assert now == printed, f"{name} shows something else for {line!r}: paste what it prints now"


@pytest.mark.spark
def test_the_readme_pipeline_prints_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "readme.yaml").write_text(named(ROOT / "README.md", "yaml")["readme.yaml"])
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    line, shown = next((line, printed) for line, printed in sessions(ROOT / "README.md") if line.startswith("etl run"))

    printed = prints(tmp_path, line)

    assert table(printed) == table(shown)
    assert table(shown)
    balance = re.findall(r"^ .* in = .*$", shown, re.MULTILINE)
    assert balance
    assert [text for text in balance if text not in printed.splitlines()] == []


@pytest.mark.spark
def test_the_alert_on_the_reference_page_of_state_passes_its_tests(tmp_path: Path, shared_session: SharedSession) -> None:
    (tmp_path / "alert.yaml").write_text(named(ROOT / "docs" / "state-reference.md", "yaml")["alert.yaml"])

    from etl.testing.on_spark import run_on

    tests = inspect_tests(tmp_path / "alert.yaml").suite

    assert tests is not None
    ran = [result(tests, case, partial(run_on, shared_session)) for case in tests.cases]
    assert [one.name.partition(",")[0] for one in ran if one.passed] == ["an alert at once"]
    assert all(one.passed for one in ran)


@pytest.mark.slow
def test_the_functions_on_the_page_pass_their_tests(tmp_path: Path) -> None:
    page = ROOT / "docs" / "own-functions.md"
    for name, text in named(page, "python", "yaml").items():
        (tmp_path / name).write_text(text)

    printed = prints(tmp_path, f"etl test {' '.join(sorted(named(page, 'yaml')))}")

    assert re.search(r"^\d+ passed", printed, re.MULTILINE), printed
    [(command, shown)] = sessions(page)
    *lines, _ = shown.splitlines()
    assert command == "etl test mail.yaml"
    assert lines
    assert {TIME.sub("", line) for line in lines} <= {TIME.sub("", line) for line in printed.splitlines()}


TIME = re.compile(r" *\([\d.]+ m?s\)")


@pytest.mark.slow
def test_rules_and_scripts_of_rocketmq_streams_become_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs" / "rocketmq-streams.md"
    files = named(page, "text", "yaml")
    files["enrich.script"] = read(files["enrich.yaml"].encode()).value["steps"][1]["script"]
    files |= {"mistake.rules": "(cmd,like)\n", "misspelt.rules": "(cmd,notlike,a)\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    shown = [(line, printed) for line, printed in sessions(page) if "--stubs" not in line]

    assert [line.split()[-1] for line, _ in shown] == ["filters.rules", "mistake.rules", "misspelt.rules", "enrich.script"]
    for line, printed in shown:
        assert prints_here(tmp_path, line, monkeypatch) == printed


@pytest.mark.spark
@pytest.mark.slow
def test_the_readme_shows_alerts_and_open_sequences(tmp_path: Path) -> None:
    (tmp_path / "guessed.yaml").write_text(named(ROOT / "README.md", "yaml")["guessed.yaml"])
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    shown = [(line, printed) for line, printed in sessions(ROOT / "README.md") if "guessed.yaml" in line]

    assert [line.split()[1] for line, _ in shown] == ["run", "state"]
    for line, printed in shown:
        assert table(prints(tmp_path, line)) == table(printed)


def table(text: str) -> list[str]:
    """The rows of results, in any order."""
    return sorted(row for row in text.splitlines() if re.match(r"window_start|\d{4}-", row))


@pytest.mark.slow
def test_the_example_of_contributing_works(tmp_path: Path) -> None:
    page = ROOT / "CONTRIBUTING.md"
    for name, text in named(page, "toml", "python", "").items():
        (tmp_path / name).write_text(text)
    entry = re.search(r'entry-points\."([\w.]+)"\]\n(\w+) = "(\w+)"', (tmp_path / "pyproject.toml").read_text())
    assert entry
    metadata = tmp_path / "sluice_link-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sluice-link\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{entry[1]}]\n{entry[2]} = {entry[3]}\n")

    tested = prints(tmp_path, "pytest -q -p no:cacheprovider")

    assert "2 passed" in tested, tested
    for line, printed in sessions(page):
        if line.startswith("etl "):
            assert prints(tmp_path, line) == printed


def test_every_measured_number_of_the_readme_is_in_the_results() -> None:
    block = (ROOT / "README.md").read_text().partition("<!-- benchmarks:begin")[2].partition("<!-- benchmarks:end")[0]
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text()

    numbers = set(re.findall(r"(?<![\w,.])\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w,.])\d+[.]\d+(?![\w.])", block))

    assert len(numbers) > 20
    assert {number for number in numbers if not re.search(rf"(?<![\d,.]){re.escape(number)}(?![\d,])", results)} == set()


def test_a_module_of_the_tests_has_a_name_of_its_own() -> None:
    """Of two with one name, Python imports the first, and pytest ends with an error before it runs a test."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py")

    assert [name for name, count in names.items() if count > 1] == []
