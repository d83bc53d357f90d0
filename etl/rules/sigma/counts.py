"""Conditions with ``2 of selection_*``, rewritten with ``and`` and ``or``: pySigma supports only ``1`` and ``all``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from etl.rules.predicates.predicate import UnsupportedError

MAX_COMBINATIONS = 1_000
"""Combinations of selections: each becomes a part of the condition."""

_SECTIONS = ("detection", "filter")
_COUNT = re.compile(r"\b(\d+)\s+of\s+([\w*-]+)", re.IGNORECASE)


def expand_counts(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The documents of one rule, with their conditions rewritten. Raises UnsupportedError."""
    sections = [one[name] for one in documents for name in _SECTIONS if isinstance(one.get(name), Mapping)]
    names = dict.fromkeys(str(name) for section in sections for name in section if name != "condition")
    return [
        {key: _rewrite_section(value, names) if key in _SECTIONS else value for key, value in one.items()} for one in documents
    ]


def _rewrite_section(section: Any, names: Iterable[str]) -> Any:
    if not isinstance(section, Mapping) or "condition" not in section:
        return section
    condition = section["condition"]
    expanded = (
        [_rewrite_condition(one, names) for one in condition]
        if isinstance(condition, list)
        else _rewrite_condition(condition, names)
    )
    return {**section, "condition": expanded}


def _rewrite_condition(condition: Any, names: Iterable[str]) -> Any:
    return _COUNT.sub(lambda found: _combine(found, names), condition) if isinstance(condition, str) else condition


def _combine(found: re.Match[str], names: Iterable[str]) -> str:
    count, pattern = int(found[1]), found[2]
    if count == 1:
        return found[0]
    regex = re.compile("(?!_).*" if pattern == "them" else ".*".join(map(re.escape, pattern.split("*"))))
    chosen = [name for name in names if regex.fullmatch(name)]
    if not 1 <= count <= len(chosen):
        raise UnsupportedError(f"{found[0]!r} can never be: it stands for {len(chosen)} selections")
    if math.comb(len(chosen), count) > MAX_COMBINATIONS:
        raise UnsupportedError(
            f"{found[0]!r}: there are more than {MAX_COMBINATIONS:,} ways to choose {count} of {len(chosen)} selections"
        )
    return "(" + " or ".join(f"({' and '.join(chosen_names)})" for chosen_names in combinations(chosen, count)) + ")"
