"""``etl test``, as its user sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from etl.cli.main import main

PIPELINE = """\
source: {type: file, path: /nowhere/auth.log}
steps:
  - {type: regex, patterns: ['(?P<user_name>\\w+) from (?P<ip>\\S+)$']}
sink: {type: console}
"""
GOOD = "tests:\n  reads a name:\n    input: [anna from 1.2.3.4]\n    expect: [{user_name: anna, ip: 1.2.3.4}]\n"
BAD = "  is wrong:\n    input: [bob from 1.2.3.4, zzz]  # lines\n    # names\n    expect: [{user_name: rob, ip: 1.2.3.4}]\n"
SHOWN = "  shows:\n    input: [eve from 1.2.3.4, zzz]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("etl.cli.test.forbid", lambda *names: None)  # this process goes on
    return tmp_path


def etl(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_all_is_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE + GOOD)

    assert etl("test") == 0

    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "p.yaml"
    assert "ok    reads a name" in out
    assert err.splitlines()[-1].startswith("1 passed in ")


def test_failures_are_printed_and_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE + GOOD + BAD)

    assert etl("test", "p.yaml", "--junit", "out/results.xml") == 1

    out, err = capsys.readouterr()
    assert "FAIL  is wrong" in out
    assert "        p.yaml:12: main[0]\n          - user_name: rob\n          + user_name: bob\n" in out
    assert err.splitlines()[-1].startswith("1 passed, 1 failed in ")
    tree = ElementTree.parse("out/results.xml")
    assert [(case.get("name"), [child.tag for child in case]) for case in tree.iter("testcase")] == [
        ("reads a name", []),
        ("is wrong", ["failure"]),
    ]
    assert tree.getroot().get("failures") == "1"
    assert "+ user_name: bob" in str(next(tree.iter("failure")).text)


@pytest.mark.parametrize("earlier", [None, "", '<?xml version="1.0" encoding="utf-8"?><testsuites tests="0"></testsuites>'])
def test_a_report_replaces_an_earlier_one(earlier: str | None, folder: Path) -> None:
    Path("p.yaml").write_text(PIPELINE + GOOD)
    if earlier is not None:
        Path("results.xml").write_text(earlier)

    assert etl("test", "--junit", "results.xml") == 0
    assert etl("test", "--junit", "results.xml") == 0

    assert [case.get("name") for case in ElementTree.parse("results.xml").iter("testcase")] == ["reads a name"]


def test_a_report_does_not_replace_a_pipeline(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE + GOOD)

    assert etl("test", "--junit", "p.yaml") == 2

    assert Path("p.yaml").read_text() == PIPELINE + GOOD
    assert "--junit p.yaml: the file exists and is no JUnit report" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_known_before_a_test_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE + GOOD)

    assert etl("test", "p.yaml", "--junit", "p.yaml/results.xml") == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert "p.yaml" in err


def test_update_writes_what_came_out_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE + GOOD + BAD + SHOWN)

    assert etl("test", "--update") == 0

    letters = "    dead_letters:\n      - {code: regex-failed, event: zzz}\n"
    shown = "    expect:\n      main:\n        - {user_name: eve, ip: 1.2.3.4}\n"
    assert Path("p.yaml").read_text() == PIPELINE + GOOD + BAD.replace("rob", "bob") + letters + SHOWN + shown + letters
    capsys.readouterr()
    assert etl("test") == 0
    assert capsys.readouterr().err.splitlines()[-1].startswith("3 passed in ")


def test_a_test_without_expectation_prints_its_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE + "tests:\n" + SHOWN)

    assert etl("test") == 0

    out, err = capsys.readouterr()
    assert "        main: 1\n          - {user_name: eve, ip: 1.2.3.4}\n        dead_letters: 1\n" in out
    assert err.splitlines()[-1].startswith("1 shown in ")


def test_names_select(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE + GOOD + BAD)

    assert etl("test", "-k", "A NAME") == 0
    assert etl("test", "-k", "nobody") == 2

    assert "tests are: reads a name, is wrong" in capsys.readouterr().err


def test_files_beside_folders_and_recipes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("deep/er").mkdir(parents=True)
    Path("deep/er/p.yaml").write_text(PIPELINE)
    Path("deep/er/p_test.yaml").write_text(GOOD)

    assert etl("test", "deep") == 0
    assert etl("test", "ssh-failed-logins", "-k", "half a line") == 0
    assert etl("test", "lost") == 2

    out, err = capsys.readouterr()
    assert "deep/er/p_test.yaml" in out
    assert "there is no file, folder or recipe 'lost'" in err


def test_nothing_to_test_is_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE)

    assert etl("test", "p.yaml") == 2

    assert "no tests found" in capsys.readouterr().err


def test_problems_of_a_file_are_printed_as_lint_prints_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE.replace("regex", "regx") + GOOD)

    assert etl("test", "p.yaml") == 1

    assert "p.yaml:3:12: unknown-type" in capsys.readouterr().err


def test_values_of_the_file_are_replaced(folder: Path) -> None:
    Path("p.yaml").write_text(PIPELINE + GOOD)

    assert etl("test", "--set", "steps.0.patterns=['(?P<user_name>x)(?P<ip>y)']") == 1


@pytest.mark.slow
def test_row_wise_tests_load_no_spark(folder: Path) -> None:
    Path("p.yaml").write_text(PIPELINE + GOOD)
    script = (
        "import sys\nfrom etl.cli.main import main\nsys.argv[1:] = ['test']\ntry: main()\nexcept SystemExit as e: code = e.code\n"
        "print(code, *sorted({'pyspark', 'py4j', 'pandas'} & set(sys.modules)))"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stdout.splitlines()[-1] == "0"


def test_lint_of_a_folder_looks_at_test_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(PIPELINE)
    Path("p_test.yaml").write_text(GOOD.replace("user_name", "usr_name"))

    assert etl("lint", ".") == 1

    assert "p_test.yaml:4:15: unknown-field" in capsys.readouterr().out


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("test", "--help") == 0

    assert "etl test ssh.yaml --update" in capsys.readouterr().out.partition("Example")[2]
