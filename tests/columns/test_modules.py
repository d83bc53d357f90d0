"""The modules of `etl.columns`."""

from __future__ import annotations

import re
from pathlib import Path

import etl.columns


def test_the_docstring_names_each_module() -> None:
    folder = Path(str(etl.columns.__file__)).parent
    modules = {".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")}
    named = set(re.findall(r"`([a-z_.]+)`", str(etl.columns.__doc__)))

    assert {name for name in modules if "__init__" not in name} - named == set()
    assert {name for name in named if name.startswith("json")} <= modules
