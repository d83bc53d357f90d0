"""The step ``script``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from etl.cli.explain import command
from etl.config.loader import inspect
from etl.steps.script import Script

SCHEMA = pa.schema([("level", pa.string()), ("message", pa.string()), ("rows", pa.list_(pa.struct([("n", pa.int64())])))])


def make_script(script: str) -> Script:
    return Script.model_validate({"type": "script", "script": script})


def test_it_is_the_steps_that_the_script_says() -> None:
    step = make_script("level=lower(level);if(level=='debug'){break();};splitArray(rows);rm(message);")

    assert [part.type for part in step.parts(SCHEMA)] == ["set", "filter", "unnest", "rename", "drop"]
    assert step.fields(SCHEMA) == pa.schema([("level", pa.string()), ("n", pa.int64())])
    assert not list(step.check(SCHEMA))


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("r=lower(levl);", ("unknown-field", "warning", 8)),
        ("r=lowr(level);", ("unknown-function", "error", 2)),
        ("r=lower(level;", ("script-syntax", "error", 13)),
        ("offset(level);", ("no-effect", "warning", 0)),
        ("grok('message','%{IP:ip}');", ("unsupported-script", "error", 0)),
        ("rm('level','message','rows');", ("no-fields", "error", None)),
    ],
)
def test_findings_have_places_in_the_script(script: str, found: tuple[str, str, int | None]) -> None:
    [finding] = make_script(script).check(SCHEMA)

    assert (finding.code, finding.severity, finding.at) == found


def test_a_pipeline_runs_it_on_arrow(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "source: {type: stdin}\nsteps:\n  - {type: json, fields: {level: string}}\n"
        "  - type: script\n    script: |\n      level=lower(level);\n      size=length(level);\nsink: {type: console}\n"
    )

    assert not inspect(path).problems
    shown = CliRunner().invoke(command, [str(path)]).output
    assert "set" in shown
    assert "Spark computes" not in shown
