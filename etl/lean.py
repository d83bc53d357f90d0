"""Keeping out of a process what it does not need: pyarrow loads pandas to look at the first list it is given (0.2 s,
30 MB), and numpy for nothing that a check asks of it (0.05 s).

Only Spark's ``mapInArrow`` needs pandas, so a run whose queries are all Arrow does without, and so does every other
command.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder

_NAME = "SLUICE_WITHOUT"


class _Without(MetaPathFinder):
    """Says that packages are not installed."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"{fullname} is not needed here", name=fullname)


def forbid(*names: str) -> None:
    """This process, and Spark's workers that it starts, do without these packages."""
    os.environ[_NAME] = " ".join(names)
    obey()


def obey() -> None:
    """Do without what the process that started this one said."""
    names = frozenset(os.environ.get(_NAME, "").split())
    if names:
        sys.meta_path.insert(0, _Without(names))
