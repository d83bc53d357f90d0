"""Components of installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint

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
