"""``etl infer``, ``etl init --for`` and ``etl grok``, as their user sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import ROOT

from etl.cli.main import main
from etl.config import check

pytestmark = pytest.mark.slow

LOG = str(ROOT / "samples" / "ssh-auth.log")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("app.json").write_text('{"a": 1}\n{"a": 2, "b": "x"}\n')
    Path("prose.txt").write_text("Call me Ishmael.\nSome years ago\n")
    return tmp_path


def etl(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", ["infer", "grok", "init"])
def test_every_command_has_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl(name, "--help") == 0

    assert f"etl {name}" in capsys.readouterr().out.partition("Example")[2]


def test_the_table_names_rates_and_an_example(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("infer", LOG) == 0

    out, err = capsys.readouterr()
    assert f"{LOG}: 455 lines" in out
    row = next(line for line in out.splitlines() if "ssh-failed-logins" in line)
    assert row.split()[:7] == ["30", "%", "0", "%", "6.0", "recipe", "ssh-failed-logins"]
    assert f"etl init --for {LOG}" in err


def test_fields_of_the_best_and_of_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("infer", "app.json", "--fields") == 0
    assert etl("infer", LOG, "--fields", "--as", "ssh-failed-logins") == 0
    assert etl("infer", LOG, "--as", "ssh-failed-login") == 2

    out, err = capsys.readouterr()
    assert "reads 2 of 2 events of app.json\nfields:\n  a: bigint  # 0 % null\n  b: string  # 50 % null\n" in out
    assert "  source.ip: string" in out
    assert "did you mean 'ssh-failed-logins'?" in err


def test_a_file_that_nothing_reads_is_an_error_with_a_hint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.txt").write_text("Ishmael\n")

    status = etl("infer", "one.txt")

    err = capsys.readouterr().err
    assert status == 1
    assert "etl grok" in err


def test_init_for_a_file_writes_a_valid_pipeline_and_its_share_of_events(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert etl("init", "--for", "app.json") == 0

    err = capsys.readouterr().err
    assert err.endswith("parser json: reads 2 of the first 2 events\nwrote app.yaml; next: etl run app.yaml\n")
    assert check(["app.yaml"]) == []
    assert etl("init", "--for", "app.json") == 1
    assert "exists already" in capsys.readouterr().err


def test_init_warns_if_most_events_would_be_dead_letters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noise = "".join(f"{chr(0xC0 + n % 60) * (3 + n % 7)}{chr(0x400 + 7 * n % 90)}\n" for n in range(50))
    Path("noise.log").write_text(f"{noise}+yQtJf8CoAB4AAFNXBIEAAAAA|GET / HTTP/1.1|Host:localhost\n", encoding="utf-8")

    assert etl("init", "--for", "noise.log") == 0

    assert "most events would be dead letters" in capsys.readouterr().err


def test_init_takes_a_recipe_or_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("init", "ssh-failed-logins", "--for", "app.json") == 2
    assert etl("init", "--for", "lost.log") == 1

    assert "there is no file 'lost.log'" in capsys.readouterr().err


def test_a_copied_recipe_finds_its_samples(folder: Path) -> None:
    assert etl("init", "ssh-failed-logins") == 0

    assert check(["ssh-failed-logins.yaml"]) == []


def test_grok_shows_captures_and_where_lines_stop(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.log").write_text("anna from 1.2.3.4\nbob from home\n\n")

    assert etl("grok", "%{WORD:user} from %{IP:ip}", "x.log") == 0

    out = capsys.readouterr().out
    assert "x.log: 1 of 3 lines match, 33 %\n  line 1: {user: anna, ip: 1.2.3.4}\n" in out
    assert "  1 match `%{WORD:user} from ` and then not %{IP:ip}\n    line 2, column 10: bob from home\n" in out
    marked = out.splitlines()
    at = next(number for number, line in enumerate(marked) if "column 10" in line)
    assert marked[at + 1].index("^") == marked[at].index("home")
    assert "  1 match nothing of it and then not %{WORD:user}\n    line 3, column 1: \n" in out


def test_grok_without_a_match_is_a_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("grok", "%{IP}", "prose.txt") == 1


def test_grok_takes_definitions_and_reports_bad_patterns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("grok", "-d", "NAME=[A-Z][a-z]+", "%{NAME:n}", "prose.txt") == 0
    assert etl("grok", "-d", "NAME", "x", "prose.txt") == 2
    assert etl("grok", "a %{USERNAM:n}", "prose.txt") == 1

    out, err = capsys.readouterr()
    assert "line 1: {n: Call}" in out
    assert "unknown-pattern: there is no grok pattern 'USERNAM'\n  a %{USERNAM:n}\n    ^\n  hint: did you mean 'USERNAME'?" in err


def test_a_long_line_is_shown_around_its_stop(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.log").write_text("x" * 500 + "\x1b y" + "z" * 500 + "\n")

    assert etl("grok", "x\\x1b %{INT}", "x.log") == 1

    out = capsys.readouterr().out
    shown, mark = out.splitlines()[-2:]
    assert len(shown) < 140
    assert shown[mark.index("^")] == "y"
    assert "\x1b" not in shown
