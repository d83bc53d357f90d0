"""The command line, as its user sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import jsonschema_rs
import pytest

from etl.cli import main as main_module
from etl.cli.main import COMMANDS, cli, main

GOOD = "source: {type: file, path: a.log}\nsink: {type: file, path: out/a.json}\n"
BAD = "source: {type: fle, path: a.log}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def etl(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("--help") == 0

    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("name", ["lint", "graph", "list", "describe", "schema", "recipes", "init"])
def test_every_command_has_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl(name, "--help") == 0

    assert f"etl {name}" in capsys.readouterr().out.partition("Example")[2]


def test_summaries_name_what_the_commands_are() -> None:
    context = click.Context(cli)

    assert isinstance(cli.get_command(context, "lint"), click.Command)
    assert cli.get_command(context, "nothing") is None


@pytest.mark.slow
def test_help_and_lint_import_nothing_heavy(folder: Path) -> None:
    Path("p.yaml").write_text(GOOD)
    script = "import sys\nfrom etl.cli.main import main\nsys.argv[1:] = ARGUMENTS\ntry: main()\nexcept SystemExit: pass\n"
    script += "print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"

    def modules(*arguments: str) -> set[str]:
        ran = subprocess.run(
            [sys.executable, "-c", script.replace("ARGUMENTS", repr(list(arguments)))], capture_output=True, text=True, check=True
        )
        return set(ran.stderr.splitlines()[-1].split())

    assert not {"pyarrow", "pydantic", "yaml"} & modules("--help")
    assert not {"pyspark", "py4j", "pandas", "polars"} & modules("lint", "p.yaml")


def test_lint_of_a_good_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(GOOD)

    assert etl("lint", "p.yaml") == 0

    assert capsys.readouterr() == ("", "1 file, no problems\n")


def test_lint_prints_problems_and_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(BAD)

    assert etl("lint", "p.yaml") == 1

    out, err = capsys.readouterr()
    assert out == "p.yaml:1:16: unknown-type: $.source.type: there is no source 'fle'\n  hint: did you mean 'file'?\n"
    assert err == "1 file, 1 error\n"


def test_lint_formats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(BAD)

    etl("lint", "p.yaml", "--format", "json")
    found = json.loads(capsys.readouterr().out)
    etl("lint", "p.yaml", "--format", "github")
    github = capsys.readouterr().out

    assert (found[0]["line"], found[0]["column"], found[0]["code"], found[0]["path"]) == (1, 16, "unknown-type", "$.source.type")
    assert github == (
        "::error file=p.yaml,line=1,col=16,title=unknown-type"
        "::$.source.type: there is no source 'fle'%0Ahint: did you mean 'file'?\n"
    )


def test_lint_strict_fails_on_warnings(folder: Path) -> None:
    Path("p.yaml").write_text("sources: {a: {type: stdin}, b: {type: file, path: b.log}}\nsinks: {o: {from: a, type: discard}}\n")

    assert etl("lint", "p.yaml") == 0
    assert etl("lint", "p.yaml", "--strict") == 1


def test_lint_finds_pipelines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pipelines").mkdir()
    Path("pipelines/a.yaml").write_text(GOOD)
    Path("b.yml").write_text(GOOD)
    Path("other.yaml").write_text("services: {}\n")

    assert etl("lint") == 0
    assert capsys.readouterr().err == "2 files, no problems\n"
    assert etl("lint", "pipelines", "pipelines/a.yaml") == 0
    assert capsys.readouterr().err == "1 file, no problems\n"


def test_lint_of_nothing_is_wrong_use(folder: Path) -> None:
    assert etl("lint") == 2
    assert etl("lint", "none.yaml") == 2


def test_lint_takes_an_env_file(folder: Path) -> None:
    Path("p.yaml").write_text("source: {type: file, path: '${LINT_ONLY}'}\n")
    Path("e").write_text("LINT_ONLY=x.log\n")

    assert etl("lint", "p.yaml") == 1
    assert etl("lint", "p.yaml", "--env-file", "e") == 0


def test_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("lnt") == 2
    assert "Did you mean 'lint'?" in capsys.readouterr().err
    assert etl("describe", "fil") == 2
    assert "did you mean 'file'?" in capsys.readouterr().err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("list", "sinks") == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)
    assert any(line.startswith("console ") for line in lines)


def test_describe_shows_both_of_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("describe", "file") == 0

    out = capsys.readouterr().out
    assert "file (source)" in out
    assert "file (sink)" in out
    assert "path  text; required" in out
    assert "retry.initial_backoff  duration; default 1s" in out


def test_graph(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(
        "sources: {a: {type: stdin}, b: {type: file, path: b.log}}\n"
        "streams:\n  s: {from: a, steps: [{type: regex, patterns: ['(?P<x>.)']}]}\n  u: {from: [s, b]}\n"
        "sinks: {o: {from: u, type: discard}, p: {from: s, type: console}}\n"
    )

    assert etl("graph", "p.yaml") == 0
    tree = capsys.readouterr().out
    assert etl("graph", "p.yaml", "--format", "mermaid") == 0
    chart = capsys.readouterr().out

    assert tree == ("a (stdin)\n└─ s: regex\n   ├─ u\n   │  └─ [o] discard\n   └─ [p] console\nb (file)\n└─ u (see above)\n")
    assert "  stream_s --> stream_u\n" in chart
    assert "  source_b --> stream_u\n" in chart


def test_graph_of_several_pipelines_shows_what_they_read_from_each_other(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("jobs").mkdir()
    fields = "folder: streams, fields: {n: int}}"
    Path("jobs/a.yaml").write_text("source: {type: stdin}\nsink: {type: stream, name: s, folder: streams}\n")
    Path("jobs/b.yaml").write_text(f"source: {{type: stream, name: s, {fields}\nsink: {{type: discard}}\n")

    assert etl("graph", "jobs") == 0
    trees = capsys.readouterr().out
    assert etl("graph", "jobs/a.yaml", "jobs/b.yaml", "--format", "mermaid") == 0
    chart = capsys.readouterr().out

    assert trees == "a\n  main (stdin)\n  └─ [main] stream → b.main\n\nb\n  main (stream) ← a.main\n  └─ [main] discard\n"
    assert '  subgraph p1_["b"]\n' in chart
    assert "    p1_source_main --> p1_sink_main\n" in chart
    assert "  p0_sink_main ==> p1_source_main\n" in chart


def test_graph_of_a_bad_file_shows_its_problems(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(BAD)

    assert etl("graph", "p.yaml") == 1
    assert capsys.readouterr().err.startswith("p.yaml:1:16: unknown-type: ")


def test_init_refuses_to_overwrite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("init") == 0
    Path("pipeline.yaml").write_text("mine")
    assert etl("init") == 1

    assert Path("pipeline.yaml").read_text() == "mine"
    assert "exists already" in capsys.readouterr().err


def test_what_init_writes_is_sound(folder: Path) -> None:
    assert etl("init") == 0
    assert etl("lint", "--strict", "pipeline.yaml") == 0


@pytest.mark.slow
def test_init_writes_scripts_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("init", "--sql") == 0
    assert etl("lint", "job.sql") == 0
    assert etl("init", "web-errors") == 0
    assert etl("lint", "web-errors.sql", "web-errors_test.yaml") == 0
    assert etl("explain", "web-errors.sql") == 0
    assert etl("graph", "web-errors.sql") == 0
    assert etl("recipes") == 0
    assert "web-errors " in capsys.readouterr().out
    assert etl("init", "web-errors", "--sql") == 2


@pytest.mark.slow
def test_init_from_a_recipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("recipes") == 0
    name = capsys.readouterr().out.split()[0]

    assert etl("init", name) == 0
    assert Path(f"{name}.yaml").is_file()
    assert etl("init", "no-such-recipe") == 2


def test_defects_have_no_traceback_without_debug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(main_module.cli, "main", broken)

    assert etl("list") == 1
    assert capsys.readouterr().err == (
        "error: ZeroDivisionError: oops\n  hint: this is a defect of etl; add --debug and report it\n"
    )
    with pytest.raises(ZeroDivisionError):
        main(["list", "--debug"])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("can't start new thread"), "as many processes and threads as it may have (ulimit -u"),
        (MemoryError(), "there is no memory left"),
        (OSError(24, "Too many open files"), "raise it to 4096 or more, with `ulimit -n 4096`"),
    ],
    ids=["threads", "memory", "files"],
)
def test_what_a_machine_has_no_more_of_is_no_defect(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(main_module.cli, "main", broken)

    assert etl("list") == 1
    message = capsys.readouterr().err
    assert reason in message
    assert "defect" not in message


def test_the_schema_of_files_of_tests(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("schema", "--tests") == 0
    schema = jsonschema_rs.Draft202012Validator(json.loads(capsys.readouterr().out))

    assert schema.is_valid({"pipeline": "x.yaml", "tests": {"a": {"input": [""], "expect": "none", "dead_letters": 1}}})
    assert not schema.is_valid({"tests": {"a": {"expected": "none"}}})
    assert not schema.is_valid({"source": {"type": "stdin"}})


@pytest.mark.slow
def test_a_closed_pipe_is_no_error() -> None:
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{sys.executable} -m etl schema | head -c 10"],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )

    assert ran.stderr == ""
    assert ran.returncode == 0


@pytest.mark.slow
def test_debug_may_stand_first(folder: Path) -> None:
    argv = [sys.executable, "-m", "etl", "--debug", "explain", "ssh-failed-logins"]

    assert subprocess.run(argv, capture_output=True, text=True, cwd=folder).stderr == ""


@pytest.mark.slow
def test_a_terminal_that_lacks_a_letter_gets_its_number(folder: Path) -> None:
    argv = [sys.executable, "-m", "etl", "explain", "ssh-failed-logins"]
    message = {
        of: subprocess.run(argv, capture_output=True, cwd=folder, env=os.environ | {"PYTHONIOENCODING": of}) for of in CODES
    }

    assert {of: (one.returncode, one.stderr) for of, one in message.items()} == dict.fromkeys(CODES, (0, b""))
    assert "→" in message["utf-8"].stdout.decode()
    assert b"\\u2192" in message["latin-1"].stdout


CODES = ("utf-8", "latin-1")


def test_the_name_of_a_recipe_replaces_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("explain", "ssh-failed-logins") == 0
    assert "pipeline ssh-failed-logins" in capsys.readouterr().out

    (folder / "sshd").write_text("source: {type: file, path: a.log}\nsink: {type: console}\n")
    assert etl("graph", "sshd") == 0  # a file of that name comes first
    assert "console" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "lint", "explain", "test"])
@pytest.mark.parametrize(
    ("written", "near"), [("frist.yaml", "first.yaml"), ("./frist.yml", "./first.yaml"), ("frist", "first.yaml")]
)
def test_a_file_that_there_is_not_has_a_neighbour(
    command: str, written: str, near: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "first.yaml").write_text("source: {type: stdin}\nsink: {type: console}\n")

    assert etl(command, written) == 2

    err = capsys.readouterr().err
    assert repr(written) in err
    assert f"did you mean '{near}'?" in err


@pytest.mark.parametrize("command", ["run", "lint", "explain", "graph"])
def test_a_recipe_that_there_is_not_has_a_neighbour(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert etl(command, "ssh-faild-logins") == 2
    assert "there is no file or recipe 'ssh-faild-logins'; did you mean 'ssh-failed-logins'?" in capsys.readouterr().err


def test_an_interrupt_while_the_command_is_loaded_gives_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")

    ended = subprocess.run(
        [sys.executable, "-m", "etl", "list"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")
