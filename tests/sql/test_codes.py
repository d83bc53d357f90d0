"""Codes of mistakes in scripts are those of the reference."""

from __future__ import annotations

import re

from running import ROOT

from etl.config.codes import PROBLEMS


def test_all_codes_are_in_the_reference() -> None:
    text = "".join(path.read_text("utf-8") for path in (ROOT / "etl" / "sql").rglob("*.py"))
    found = set(re.findall(r'ScriptError\(\s*"([a-z]+(?:-[a-z]+)+|cycle)"', text))
    assert len(found) > 15
    assert found <= PROBLEMS.keys()
