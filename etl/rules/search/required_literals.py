"""Sets of literals that a regular expression requires, searched for in the few texts that it would be tested on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from etl.columns.texts import Texts
from etl.rules.search.contains_kernel import contain_all_sets
from etl.rules.search.literal_arrays import LiteralBytes, pack
from etl.rules.search.literals import ANYWHERE, FOLD, Literal

MAX_SETS = 6


class RequiredLiterals:
    """Sets of literals: a text must contain one of each set."""

    def __init__(self, sets: Sequence[Sequence[str]], exact: Sequence[Sequence[str]] = ()) -> None:
        """The case of ASCII letters counts only in ``exact``."""
        some = [*((one, True) for one in exact), *((one, False) for one in sets)][:MAX_SETS]
        self._literals = LiteralBytes.of(pack([_to_literal(text, cased) for texts, cased in some for text in texts])).with_cases()
        self._sets = np.concatenate([[0], np.cumsum([len(texts) for texts, _ in some])]).astype(np.int64)

    def filter(self, texts: Texts, values: Any) -> Any:
        """Those of some texts (int64[n], their indexes) that contain a literal of each set."""
        found = np.empty(len(values), np.bool_)
        contain_all_sets(texts.address, texts.length, values, self._literals.addresses, self._sets, found)
        return values[found]


def _to_literal(text: str, cased: bool) -> Literal:
    data = text.encode("utf-8", "surrogatepass")
    return Literal(0, data if cased else data.translate(FOLD), ANYWHERE, cased)
