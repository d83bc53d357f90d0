"""What is done to the keys and values of pairs once they are cut: trimming, removing, case, choosing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, owned_array
from parsers.pairs.columns import text_column
from parsers.pairs.pairs import Name, Pairs

Case = Literal["lower", "upper", "capitalize"]
Change: TypeAlias = "Callable[[pa.StringArray], pa.StringArray]"

_KEY_CASES: dict[Case | None, Callable[[str], str]] = {
    None: str,
    "lower": str.lower,
    "upper": str.upper,
    "capitalize": str.capitalize,
}
_VALUE_CASES: dict[Case, Change] = {"lower": pc.utf8_lower, "upper": pc.utf8_upper, "capitalize": pc.utf8_capitalize}


def keys_as(trimmed: str, removed: str, case: Case | None, include: Sequence[str], exclude: Sequence[str], prefix: str) -> Name:
    """Keys → names. Choosing looks at the key as it comes out, without its prefix."""
    gone = dict.fromkeys(map(ord, removed))
    kept, left_out = frozenset(include), frozenset(exclude)

    def name(key: str) -> str | None:
        key = _KEY_CASES[case](key.strip(trimmed).translate(gone)) if trimmed else _KEY_CASES[case](key.translate(gone))
        chosen = key and (not kept or key in kept) and key not in left_out
        return prefix + key if chosen else None

    return name


def spoken(trimmed: str, removed: str, case: Case | None) -> Callable[[Pairs], Pairs]:
    """Changes of all values at once; none at all where nothing is asked for."""
    changes: list[Change] = []
    if trimmed:
        changes.append(lambda texts: pc.utf8_trim(texts, trimmed))
    if removed:
        pattern = "[" + "".join(f"\\x{{{ord(character):x}}}" for character in removed) + "]"
        changes.append(lambda texts: pc.replace_substring_regex(texts, pattern, ""))
    if case:
        changes.append(_VALUE_CASES[case])

    def change(pairs: Pairs) -> Pairs:
        if not changes:
            return pairs
        texts = _flat(pairs.values)
        for one in changes:
            texts = one(texts)
        return pairs._replace(values=Texts.of(texts))

    return change


def _flat(values: Texts) -> pa.StringArray:
    """All values, null for keys that stand alone."""
    import numpy as np

    numbers = np.where(values.length < 0, -1, np.arange(len(values.length)))
    return valid(owned_array(text_column(values, numbers)).cast(pa.string()))


def valid(texts: pa.StringArray) -> pa.StringArray:
    """Texts that Arrow's functions for characters take: bytes that are no UTF-8 become U+FFFD."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([None if one is None else one.decode("utf-8", "replace") for one in texts.cast(pa.binary()).to_pylist()])
    return texts
