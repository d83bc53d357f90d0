"""The generated reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from etl.api import Component
from etl.catalogue import installed, type_name
from etl.config.codes import PROBLEMS
from etl.reference import format_size, markdown, page, pages, problems_page

ROOT = Path(__file__).parent.parent
CODE = re.compile(r"(?:Finding|\.fail|\.add|Fault|Flaw)\([^\"]{0,80}?\"([a-z0-9]+(?:-[a-z0-9]+)+)\"")


def test_every_code_is_documented() -> None:
    sources = [path for name in ("etl", "connectors", "parsers") for path in (ROOT / name).rglob("*.py")]

    codes = {code for path in sources for code in CODE.findall(path.read_text("utf-8"))}

    assert len(codes) > 20
    assert codes - set(PROBLEMS) == set(), "write a paragraph for each in etl/config/codes.py"


def test_the_page_of_problems_has_all_codes() -> None:
    text = problems_page()

    assert all(f"## {code}\n" in text for code in PROBLEMS)


@pytest.mark.parametrize("component", installed().components, ids=type_name)
def test_a_page_names_all_options(component: type[Component]) -> None:
    text = markdown(component)

    for name, field in component.model_fields.items():
        if name != "type":
            assert f"| `{field.alias or name}` |" in text
    assert page(component).text


def test_all_pages_are_linked() -> None:
    found = dict(pages(installed()))

    assert all(f"]({path})" in found["README.md"] for path in found if path != "README.md")


def test_sizes_are_shown_as_users_write_them() -> None:
    assert [format_size(n) for n in (1048576, 10_000_000, 0, 7)] == ["1MiB", "10MB", "0", "7B"]
