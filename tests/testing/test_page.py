"""What docs/testing.md shows is what is printed."""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import TYPE_CHECKING

import pytest
import yaml
from running import ROOT, Etl

from etl.config import check
from etl.config.cases.case_file import inspect_tests
from etl.testing.on_spark import run_on
from etl.testing.results import result

if TYPE_CHECKING:
    from etl.running.shared_session import SharedSession

PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
LINES = """\
2026-11-20T06:25:03Z gate sshd[12]: Failed password for root from 198.51.100.7 port 34416 ssh2
2026-11-20T06:25:05Z gate sshd[12]: Accepted password for eve from 203.0.113.45 port 44899 ssh2
2026-11-20T06:25:07Z gate sshd[12]: Failed password for eve from 203.0.113.45 port 44899 ssh2
"""
SHOP = """\
2026-11-20 06:30:01,123 INFO [main] shop.Orders: order 12 of 192.0.2.7 took 35 ms
2026-11-20 06:30:02,456 INFO [worker-1] shop.Orders: order 13 of 198.51.100.7 took 7 ms
2026-11-20 06:30:03,789 WARN [worker-2] shop.Orders: order 14 of 203.0.113.45 took 1204 ms
2026-11-20 06:30:04,012 INFO [main] shop.Stock: counted all shelves
"""


@pytest.fixture
def page(etl: Etl) -> Etl:
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        name = re.match(r"# ([\w.]+)\n", text)
        assert name
        etl.pipeline(text, name[1])
    etl.pipeline(LINES, "auth.log")
    etl.pipeline(SHOP, "shop.log")
    return etl


def untimed(text: str) -> str:
    return re.sub(r"\d+\.\d+ s", "… s", text)


@pytest.mark.slow
def test_commands_print_what_is_shown(page: Etl) -> None:
    shown = [block.partition("\n") for block in re.findall(r"```console\n\$ (.*?)```", PAGE, re.DOTALL)]
    assert len(shown) == 3

    for line, _, printed in shown:
        ran = page(*shlex.split(line)[1:])
        # infer: progress, and an event of which the page has no room; test: the line that a slow machine shows meanwhile
        err = "" if line.startswith("etl infer") else re.sub(r"^running the test .*\n", "", ran.err, flags=re.MULTILINE)
        assert untimed(ran.out + err)[: len(untimed(printed))] == untimed(printed), line


@pytest.mark.slow
def test_all_files_of_the_page_are_sound_and_its_test_file_passes(page: Etl) -> None:
    files = sorted(page.folder.glob("*.yaml"))
    assert [path.name for path in files] == ["alive.yaml", "attackers.yaml", "logins.yaml", "more_test.yaml"]

    assert check(files) == []
    assert page("test", "more_test.yaml").status == 0


@pytest.mark.spark
def test_the_window_of_the_page_gives_the_documented_events(page: Etl, shared_session: SharedSession) -> None:
    suite = inspect_tests(page.folder / "attackers.yaml").suite
    assert suite
    shared = partial(run_on, shared_session)

    ran = result(suite, suite.cases[0], shared)

    assert list(ran.lines()) == []


def test_the_forms_of_the_page_are_those_of_the_schema() -> None:
    from etl.config.cases.case_schema import definitions

    known = definitions()["test"]["properties"]

    assert [name for name in known if f"`{name}" not in PAGE] == ["description"]
    assert {"pipeline", "tests"} in [set(yaml.safe_load(text)) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
