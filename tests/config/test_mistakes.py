"""Mistakes that people make in pipeline files: `mistakes/NAME.yaml` or `NAME.sql`, and what lint says of it in `NAME.txt`.

`make refresh` writes all `NAME.txt` anew; then read what has changed: a new component is in the hints that list all of its kind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.config.loader import inspect

FOLDER = Path(__file__).with_name("mistakes")
CASES = sorted(path for path in FOLDER.rglob("*") if path.suffix in (".yaml", ".sql"))


def lint_output(case: Path) -> str:
    """The problems as `etl lint` prints them, without the name of the folder."""
    return "".join(f"{problem}\n" for problem in inspect(case, {}).problems).replace(f"{FOLDER}/", "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_lint_prints_the_recorded_problems(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)

    assert lint_output(case) == case.with_suffix(".txt").read_text("utf-8"), "where the new text is right: make refresh"


if __name__ == "__main__":
    import os

    os.chdir(FOLDER)
    for case in CASES:
        case.with_suffix(".txt").write_text(lint_output(case), "utf-8")
