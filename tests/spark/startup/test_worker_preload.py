"""What the daemon of workers loads, and from where."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from etl.spark.startup.worker_preload import prefer_installed_pyspark


@pytest.mark.parametrize(("version", "first"), [("4.3.0", "installed"), ("4.2.1", "zip")])
def test_pyspark_of_the_environment_is_loaded_if_it_has_the_version_of_sparks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, first: str
) -> None:
    spark, installed = tmp_path / "spark", tmp_path / "installed"
    (installed / "pyspark").mkdir(parents=True)
    (installed / "pyspark" / "version.py").write_text(f'__version__: str = "{version}"\n')
    spark.mkdir()
    with zipfile.ZipFile(spark / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/version.py", '__version__: str = "4.3.0"\n')
    zips = [str(spark / "pyspark.zip"), str(spark / "py4j-0.10.9.9-src.zip")]
    monkeypatch.setattr(sys, "path", [*zips, "/usr/lib/python3", str(installed)])

    prefer_installed_pyspark()

    orders = {"installed": ["/usr/lib/python3", str(installed), *zips], "zip": [*zips, "/usr/lib/python3", str(installed)]}
    assert sys.path == orders[first]


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_a_zip_file_that_cannot_be_read_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    file = tmp_path / "pyspark.zip"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setattr(sys, "path", [str(file), *sys.path])

    prefer_installed_pyspark()

    assert sys.path[0] == str(file)
