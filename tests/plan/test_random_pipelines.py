"""Invariant: a pipeline without lint problems starts: it is planned, its segments run, and Spark accepts its frames."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
import yaml
from random_pipelines import Maker
from starting import Starter

from etl.catalogue import installed
from etl.config.loader import inspect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = int(os.environ.get("SLUICE_FUZZ", "30"))
"""Number of pipelines; ``SLUICE_FUZZ`` sets another, ``SLUICE_SEED`` another seed."""
COMPUTED = 8
"""Spark computes one of this many pipelines, because that takes the longest."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the pipelines read."""
    (tmp_path / "in" / "none").mkdir(parents=True)
    (tmp_path / "in" / "a.log").write_text("a b\n")
    with sqlite3.connect(tmp_path / "in.db") as database:
        database.execute("create table logs (id integer primary key, name text)")
    return tmp_path


@pytest.mark.spark
def test_pipelines_without_lint_problems_start(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starter, catalogue, first = Starter(spark, folder, monkeypatch), installed(), int(os.environ.get("SLUICE_SEED", "0"))
    file, started = folder / "pipeline.yaml", 0

    for seed in range(first, first + CASES):
        file.write_text(yaml.safe_dump(Maker(Random(seed), catalogue, folder).pipeline(), sort_keys=False))
        checked = inspect(file, {"API_KEY": "of an example"})
        assert not [str(one) for one in checked.problems if one.code == "check-failed"], f"seed {seed}:\n{file.read_text()}"
        if checked.pipeline is None:
            continue
        started += 1
        try:
            starter.start(checked.pipeline, computed=seed % COMPUTED == 0)
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}\n{file.read_text()}")

    assert started > CASES / 3  # others have mistakes, in a number that varies with the options of all components
