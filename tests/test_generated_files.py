"""Generated files in the repository are current."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.catalogue import installed
from etl.cli.schema import api_text, text
from etl.reference import pages
from etl.sdk.generator import files

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"


def test_the_schema_is_current() -> None:
    committed = (ROOT / "schemas" / "pipeline.schema.json").read_text("utf-8")

    assert committed == text() + "\n", "refresh it: make refresh, or etl schema > schemas/pipeline.schema.json"


def test_the_openapi_document_is_current() -> None:
    pytest.importorskip("starlette", reason="pip install 'sluice-etl[server]'")
    committed = (ROOT / "schemas" / "openapi.json").read_text("utf-8")

    assert committed == api_text() + "\n", "refresh it: make refresh, or etl schema --api > schemas/openapi.json"


def test_the_reference_is_current() -> None:
    committed = {str(path.relative_to(REFERENCE)): path.read_text("utf-8") for path in REFERENCE.rglob("*.md")}

    made = dict(pages(installed()))

    different = sorted(name for name in made.keys() | committed.keys() if made.get(name) != committed.get(name))
    assert different == [], "refresh it: make refresh, or python -m etl.reference docs/reference"


def test_the_methods_of_the_python_front_end_are_current() -> None:
    folder = ROOT / "etl" / "sdk" / "generated"
    committed = {path.name: path.read_text("utf-8") for path in folder.glob("*.py")}

    made = dict(files(installed()))

    different = sorted(name for name in made.keys() | committed.keys() if made.get(name) != committed.get(name))
    assert different == [], "refresh it: make refresh, or python -m etl.sdk.generator etl/sdk/generated"
