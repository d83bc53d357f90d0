"""Components of installed packages."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from etl import catalogue
from etl.api import EtlError
from etl.catalogue import GROUP, installed


def test_two_components_of_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    both = [EntryPoint(name, "parsers.components", GROUP) for name in ("a", "b")]
    monkeypatch.setattr(catalogue, "entry_points", lambda group: both)

    # when, then
    with pytest.raises(
        EtlError, match=r"there are two steps '\w+', of 'a' \(parsers.components\) and 'b' \(parsers.components\): uninstall one"
    ):
        installed.__wrapped__()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nowhere", "No module named 'nowhere'"),
        ("PARTS = ()", "module 'foreign' has no attribute 'COMPONENTS'"),
        ("if True print()", "SyntaxError: invalid syntax (foreign.py, line 1)"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("COMPONENTS = int", "COMPONENTS is a tuple of classes and entries, such as (Link,), and it is <class 'int'>"),
        ("COMPONENTS = (int,)", "COMPONENTS is a tuple of classes and entries, such as (Link,), and it is (<class 'int'>,)"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named_with_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    # given
    (tmp_path / "foreign.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "foreign", raising=False)
    monkeypatch.setattr(catalogue, "entry_points", lambda group: [EntryPoint("their", "foreign", GROUP)])

    # when, then
    with pytest.raises(EtlError, match=re.escape(f"components of 'their' (foreign) cannot be loaded: {message}")):
        installed.__wrapped__()
