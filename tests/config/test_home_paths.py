"""Home folders in paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from etl.config.loader import inspect
from etl.steps.detection.rules import Rules


def test_a_tilde_is_the_home_folder_in_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.yml").write_text("{name: a, where: message = 'x'}\n")
    file = tmp_path / "p.yaml"
    file.write_text("source: {type: stdin}\nsteps: [{type: rules, files: [~/rules/*.yml]}]\nsink: {type: console}\n")

    checked = inspect(file, {})

    assert checked.problems == ()
    assert checked.pipeline is not None
    (step,) = checked.pipeline.streams["steps"].steps
    assert isinstance(step, Rules)
    assert step.files == (os.path.join(tmp_path, "rules/*.yml"),)
