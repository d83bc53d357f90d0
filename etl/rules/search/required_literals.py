"""Literals all of which a regular expression needs, looked for in the few texts that it would be tried on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from etl.columns.texts import Texts
from etl.rules.search.literal_kernel import ANYWHERE, FOLD
from etl.rules.search.literal_search import Literals, Needle
from etl.rules.search.required_kernel import have_all

MOST_SETS = 6


class Required:
    """Sets of literals: a text must have one of each."""

    def __init__(self, sets: Sequence[Sequence[str]], exact: Sequence[Sequence[str]] = ()) -> None:
        """The case of ASCII's letters does not count, but in ``exact``."""
        some = [*((one, True) for one in exact), *((one, False) for one in sets)][:MOST_SETS]
        literals = [_needle(text, cased) for texts, cased in some for text in texts]
        self._literals = Literals(literals)
        self._sets = np.concatenate([[0], np.cumsum([len(texts) for texts, _ in some])]).astype(np.int64)

    def among(self, texts: Texts, values: Any) -> Any:
        """Those of some texts (by number) that have what they must."""
        found = np.empty(len(values), np.bool_)
        have_all(texts.address, texts.length, values, self._literals.located, self._sets, found)
        return values[found]


def _needle(text: str, cased: bool) -> Needle:
    data = text.encode("utf-8", "surrogatepass")
    return Needle(0, data if cased else data.translate(FOLD.tobytes()), ANYWHERE, cased)
