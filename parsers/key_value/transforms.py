"""Changes of keys and values once pairs are cut: trim, remove characters, change the case, choose keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, materialize_array
from parsers.pairs.pair_columns import NameKey, Pairs
from parsers.pairs.value_columns import make_text_column

Case = Literal["lower", "upper", "capitalize"]
Change: TypeAlias = "Callable[[pa.StringArray], pa.StringArray]"

_KEY_CASES: dict[Case | None, Callable[[str], str]] = {
    None: str,
    "lower": str.lower,
    "upper": str.upper,
    "capitalize": str.capitalize,
}
_VALUE_CASES: dict[Case, Change] = {"lower": pc.utf8_lower, "upper": pc.utf8_upper, "capitalize": pc.utf8_capitalize}


def compile_names(
    trimmed: str, removed: str, case: Case | None, include: Sequence[str], exclude: Sequence[str], prefix: str
) -> NameKey:
    """Keys → names. ``include`` and ``exclude`` apply to the changed key, without its prefix."""
    gone = dict.fromkeys(map(ord, removed))
    included, left_out = frozenset(include), frozenset(exclude)

    def name(key: str) -> str | None:
        key = _KEY_CASES[case](key.strip(trimmed).translate(gone)) if trimmed else _KEY_CASES[case](key.translate(gone))
        chosen = key and (not included or key in included) and key not in left_out
        return prefix + key if chosen else None

    return name


def compile_changes(trimmed: str, removed: str, case: Case | None) -> Callable[[Pairs], Pairs]:
    """A function that changes all values of pairs at once; the same pairs if no option changes them."""
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
    return valid_texts(materialize_array(make_text_column(values, numbers)).cast(pa.string()))


def valid_texts(texts: pa.StringArray) -> pa.StringArray:
    """The texts as UTF-8, which Arrow's functions for characters need: other bytes become U+FFFD."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([None if one is None else one.decode("utf-8", "replace") for one in texts.cast(pa.binary()).to_pylist()])
    return texts
