"""A taxonomy file that becomes bad during a run: the last good one stays in use, and the reason is logged."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from etl.api import ComponentError
from etl.rules.reload.taxonomy_cache import current_taxonomy
from etl.rules.sigma.taxonomy import TaxonomyError
from etl.steps.detection.rules import Rules

GOOD = "fields: {Image: process}\n"
SIGMA = "title: Shell\nlogsource: {product: linux}\ndetection: {s: {Image: sh}, condition: s}\n"
SCHEMA = pa.schema([("process", pa.string()), ("name", pa.string())])
EVENTS = pa.RecordBatch.from_pydict({"process": ["sh", "ls"], "name": ["ls", "sh"]}, schema=SCHEMA)


def matched(step: Rules) -> list[str]:
    return [event["process"] for event in step.open(SCHEMA)(EVENTS).events.to_pylist()]


@pytest.mark.parametrize("bad", ["fields: [", "feilds: {}\n", None])
def test_a_bad_file_leaves_the_last_good_names(bad: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # given
    names, rule = tmp_path / "names.yml", tmp_path / "rule.yml"
    names.write_text(GOOD)
    rule.write_text(SIGMA)
    step = Rules.model_validate({"files": [str(rule)], "fields": str(names)})
    assert matched(step) == ["sh"]

    # when
    if bad is None:
        names.unlink()
    else:
        names.write_text(bad)
    found = step.open(SCHEMA)

    # then
    assert matched(step) == ["sh"]
    assert "stay as they were" in caplog.text
    state = found.measures().state
    assert (state["refused"], str(names) in str(state["refused_because"])) == (1, True)

    # when it is mended, then
    names.write_text("fields: {Image: name}\n")
    assert matched(step) == ["ls"]
    assert step.open(SCHEMA).measures().state["refused"] == 0


def test_rules_and_names_are_read_where_the_working_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, rule, gone = tmp_path / "names.yml", tmp_path / "rule.yml", tmp_path / "gone"
    names.write_text(GOOD)
    rule.write_text(SIGMA)
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    step = Rules.model_validate({"files": [str(rule)], "fields": str(names)})

    assert matched(step) == ["sh"]
    rule.write_text("title: [")
    assert matched(step) == ["sh"], "the last good version is found again"


def test_a_file_that_was_never_good_is_an_error(tmp_path: Path) -> None:
    names = tmp_path / "names.yml"
    names.write_text("fields: [")
    step = Rules.model_validate({"rules": [{"name": "a", "where": "process = 'sh'"}], "fields": str(names)})

    with pytest.raises(TaxonomyError, match="is not YAML"):
        current_taxonomy(str(names))
    with pytest.raises(ComponentError, match=r"rules: .*is not YAML"):
        step.open(SCHEMA)
