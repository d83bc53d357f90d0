"""Whether a text fits one pattern: asked only of texts that hold one of its literals, or of all where it has none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.scanner.texts import owned_array, taken

TIMEOUT_SECONDS = 0.1
"""For one text in the package ``regex``, which backtracks. A text that takes longer does not fit."""

PATIENCE = 10
"""Texts for which a pattern may take too long; then it rests until the process ends."""

KEPT = 4096
"""Patterns of the package ``regex`` that a process keeps compiled, about 10 kB each."""

log = logging.getLogger("sluice.tables")
_late: dict[str, int] = {}


def fitting(engine: str, test: str, texts: pa.Array, rows: Any) -> Any:
    """Those of the rows (int64[m]) whose text fits."""
    return rows[_FITS[engine](test, owned_array(texts if len(rows) == len(texts) else taken(texts, rows)))]


def _linear(test: str, texts: pa.Array) -> Any:
    """RE2 compiles at each call (20 to 50 µs), in time linear to the texts."""
    return pc.fill_null(pc.match_substring_regex(texts, test), False).to_numpy(zero_copy_only=False)


def _backtracking(test: str, texts: pa.Array) -> Any:
    """Look-around and back-references: a Python call for each text."""
    return np.array([text is not None and _found(test, text.as_py()) for text in texts.cast(pa.large_binary())], np.bool_)


def _found(test: str, text: bytes | None) -> bool:
    if text is None or _late.get(test, 0) >= PATIENCE:
        return False
    try:
        return _compiled(test).search(text.decode("utf-8", "replace"), timeout=TIMEOUT_SECONDS) is not None
    except TimeoutError:
        _told(test)
        return False


def _told(test: str) -> None:
    """Say so the first time, and when it happens no more."""
    _late[test] = _late.get(test, 0) + 1
    if _late[test] == 1:
        log.warning("the pattern %.200r takes longer than %g s for a text: it does not fit such texts", test, TIMEOUT_SECONDS)
    elif _late[test] == PATIENCE:
        log.warning("the pattern %.200r took too long for %d texts, and is tried no more", test, PATIENCE)


@lru_cache(maxsize=KEPT)
def _compiled(test: str) -> Any:
    import regex

    return regex.compile(test)


_FITS: dict[str, Callable[[str, pa.Array], Any]] = {"re2": _linear, "regex": _backtracking}
