"""The wheel and the sdist contain all that a user needs; tried outside of the repository."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from running import ROOT

pytestmark = pytest.mark.slow

SSH = "2026-11-20T06:25:03Z gate sshd[12]: Failed password for root from 198.51.100.7 port 34416 ssh2\n"
PIPELINE = """\
source: {type: file, path: auth.log}
steps:
  - {type: grok, patterns: ["%{TIMESTAMP_ISO8601:timestamp} .* from %{IP:source.ip} "]}
sink: {type: file, path: out.jsonl}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and, by reference, the libraries that it requires: they take 1 GB."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True, with_pip=False)
    (wheel,) = built.glob("*.whl")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "--no-deps", "--no-index", wheel],
        check=True,
    )
    (site,) = folder.glob("lib/python*/site-packages")
    # a .pth file of a folder that is itself added by one is not read, so the repository's editable install is not seen
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def test_the_wheel_has_all_modules_of_the_repository(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    modules = {name for name in tracked if name.startswith(("etl/", "connectors/", "parsers/")) and (ROOT / name).is_file()}

    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    with tarfile.open(sdist) as archive_of_sources:
        sources = {name.partition("/")[2] for name in archive_of_sources.getnames()}

    assert modules - packed == set()
    assert {"etl/share/schemas/pipeline.schema.json", "etl/share/pipelines/ssh-failed-logins.yaml"} <= packed
    assert {*modules, "README.md", "LICENSE", "pyproject.toml"} - sources == set()
    assert not any("__pycache__" in name or name.startswith("tests/") for name in packed)


def test_a_pipeline_runs_from_the_wheel(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "auth.log").write_text(SSH)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)

    where = subprocess.run(
        [environment / "python", "-c", "import etl; print(etl.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ran = subprocess.run(
        [environment / "etl", "run", "pipeline.yaml", "--once", "--state", "state"], cwd=tmp_path, capture_output=True, text=True
    )

    assert where.startswith(str(environment.parent))
    assert ran.returncode == 0, ran.stderr
    assert [json.loads(line)["source"]["ip"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == ["198.51.100.7"]


def test_the_wheel_contains_the_recipes(environment: Path, tmp_path: Path) -> None:
    listed = subprocess.run([environment / "etl", "recipes"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    made = subprocess.run([environment / "etl", "init", "ssh-failed-logins"], cwd=tmp_path, capture_output=True, text=True)

    checked = subprocess.run([environment / "etl", "lint", "."], cwd=tmp_path, capture_output=True, text=True)

    assert "ssh-failed-logins" in listed
    assert made.returncode == 0, made.stderr
    assert checked.returncode == 0, checked.stderr


def test_the_repository_holds_no_caches_and_no_large_files() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs a checkout with .git, to list the tracked files")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    tracked = [path for path in listed.split("\0") if path and (ROOT / path).is_file()]
    assert "pyproject.toml" in tracked
    hidden = {path.partition("/")[0] for path in tracked if path.startswith(".") and "/" in path}
    assert hidden <= {".ci", ".github"}, "a folder of a tool or a cache was committed"
    assert [path for path in tracked if (ROOT / path).stat().st_size > 1 << 20] == []
