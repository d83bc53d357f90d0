"""The rule of all commands that write a file which the user names: one that exists is replaced only with --force."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

import pytest
from click.testing import CliRunner

from etl.cli.main import cli
from etl.running import environment_archive

PIPELINE = "source: {type: file, path: x.log}\nsink: {type: console}\n"


@pytest.fixture(autouse=True)
def few_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_archive, "_needed_packages", lambda: [distribution("click")])


@pytest.mark.parametrize(
    "words",
    [
        ["package", "out.tar.gz"],
        ["import", "shipper.conf", "-o", "out.yaml"],
        ["dead", "export", "p.yaml", "out.jsonl"],
        ["state", "export", "p.yaml", "counts", "out.parquet"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
@pytest.mark.parametrize("is_there", [True, False], ids=["the file exists", "its folder does not"])
def test_no_command_replaces_a_file_without_force(
    words: list[str], is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(PIPELINE)
    Path("shipper.conf").write_text("input { stdin {} } output { stdout {} }")
    target = Path(words[-1] if is_there else f"missing/{words[-1]}")
    if is_there:
        target.write_text("mine")

    refused = CliRunner().invoke(cli, [*words[:-1], str(target)])

    assert refused.exit_code == 2
    assert ("exists already" if is_there else "there is no folder 'missing'") in refused.stderr
    assert not is_there or target.read_text() == "mine"


def test_a_package_replaces_a_file_with_force(tmp_path: Path) -> None:
    (target := tmp_path / "out.tar.gz").write_text("mine")

    made = CliRunner().invoke(cli, ["package", str(target), "--force"])

    assert made.exit_code == 0, made.output
    assert target.read_bytes()[:2] == b"\x1f\x8b"
