"""Keeping pandas out of processes that do not need it: pyarrow loads it (0.2 s, 30 MB) to look at the first list it is given.

Only Spark's ``mapInArrow`` asks for it, so a run whose queries are all Arrow does without, and so does every other command.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder

_NAME = "SLUICE_WITHOUT_PANDAS"


class _NoPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=fullname)


def forbid_pandas() -> None:
    """This process, and Spark's workers that it starts, do without."""
    os.environ[_NAME] = "1"
    obey()


def obey() -> None:
    """Do without where the process that started this one said so."""
    if os.environ.get(_NAME):
        sys.meta_path.insert(0, _NoPandas())
