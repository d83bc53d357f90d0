"""The reverse law: a pipeline that lint refuses with an error about fields or expressions does not start either."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
import yaml
from random_pipelines import Maker
from starting import Starter

from etl.catalogue import installed
from etl.config import loader
from etl.config.model import Pipeline
from etl.config.problems import Problem
from etl.config.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = int(os.environ.get("SLUICE_FUZZ", "20"))
"""Pipelines; more by ``SLUICE_FUZZ``, from another seed each time by ``SLUICE_SEED``."""
CHECKED = frozenset({"unknown-field", "wrong-type", "bad-expression", "unknown-function"})
"""Codes of errors in Spark SQL after which a pipeline must not start. Others forbid what starts and is of no use."""
EXPRESSION = re.compile(r"\.(?:where|query)$|\.(?:fields|aggregates)\.|\.type$")


@pytest.mark.spark
def test_pipelines_with_lint_errors_do_not_start(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starter, catalogue, first = Starter(spark, tmp_path, monkeypatch), installed(), int(os.environ.get("SLUICE_SEED", "0"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").write_text("a b\n")
    file, started = tmp_path / "pipeline.yaml", list[str]()

    for seed in range(first, first + CASES):
        file.write_text(yaml.safe_dump(Maker(Random(seed), catalogue, tmp_path).pipeline(), sort_keys=False))
        for pipeline, problems in _refused(file):
            try:
                starter.start(pipeline, computed=True)
            except Exception:
                continue
            started += [f"seed {seed}: {problem}" for problem in problems]

    assert not started, "\n".join(started)


def _refused(file: Path) -> Iterator[tuple[Pipeline, list[Problem]]]:
    """A pipeline in spite of its errors, if all of them are checked ones and all of its components can be built."""
    errors = [one for one in loader.inspect(file, {}).problems if one.severity == "error"]
    if not errors or any(one.code not in CHECKED or not EXPRESSION.search(one.path) for one in errors):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Report, "errors", property(lambda report: []))
        pipeline = loader.inspect(file, {}).pipeline
    if pipeline is not None:
        yield pipeline, errors
