"""Literals all of which a regular expression needs, looked for in the few texts that it would be tried on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from etl.columns.texts import Texts
from etl.rules.needle_kernel import FOLD
from etl.rules.required_kernel import have_all

MOST_SETS = 6


class Required:
    """Sets of literals: a text must have one of each, whatever the case of ASCII's letters is."""

    def __init__(self, sets: Sequence[Sequence[str]]) -> None:
        texts = [[one.encode("utf-8", "surrogatepass").translate(FOLD.tobytes()) for one in some] for some in sets[:MOST_SETS]]
        literals = [one for some in texts for one in some]
        self._data = np.frombuffer(b"".join(literals), np.uint8)
        self._first = np.concatenate([[0], np.cumsum([len(one) for one in literals])]).astype(np.int64)
        self._sets = np.concatenate([[0], np.cumsum([len(some) for some in texts])]).astype(np.int64)

    def among(self, texts: Texts, values: Any) -> Any:
        """Those of some texts (by number) that have what they must."""
        found = np.empty(len(values), np.bool_)
        have_all(texts.address, texts.length, values, self._data, self._first, self._sets, found)
        return values[found]
