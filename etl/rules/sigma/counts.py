"""``2 of selection_*`` in conditions of Sigma rules, said with ``and`` and ``or``: pySigma knows ``1`` and ``all`` only."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from etl.rules.sigma.values import UnsupportedError

MOST_WAYS = 1_000
"""Ways to choose so many of the selections: each becomes a part of the condition."""

_SECTIONS = ("detection", "filter")
_COUNT = re.compile(r"\b(\d+)\s+of\s+([\w*-]+)", re.IGNORECASE)


def counts_expanded(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Documents that make one rule together, with their conditions in that form. Raises UnsupportedError."""
    sections = [one[name] for one in documents for name in _SECTIONS if isinstance(one.get(name), Mapping)]
    names = dict.fromkeys(str(name) for section in sections for name in section if name != "condition")
    return [{key: _section(value, names) if key in _SECTIONS else value for key, value in one.items()} for one in documents]


def _section(section: Any, names: Iterable[str]) -> Any:
    if not isinstance(section, Mapping) or "condition" not in section:
        return section
    condition = section["condition"]
    expanded = [_condition(one, names) for one in condition] if isinstance(condition, list) else _condition(condition, names)
    return {**section, "condition": expanded}


def _condition(condition: Any, names: Iterable[str]) -> Any:
    return _COUNT.sub(lambda found: _ways(found, names), condition) if isinstance(condition, str) else condition


def _ways(found: re.Match[str], names: Iterable[str]) -> str:
    count, pattern = int(found[1]), found[2]
    if count == 1:
        return found[0]
    wanted = re.compile("(?!_).*" if pattern == "them" else ".*".join(map(re.escape, pattern.split("*"))))
    chosen = [name for name in names if wanted.fullmatch(name)]
    if not 1 <= count <= len(chosen):
        raise UnsupportedError(f"{found[0]!r} can never be: it stands for {len(chosen)} selections")
    if math.comb(len(chosen), count) > MOST_WAYS:
        raise UnsupportedError(
            f"{found[0]!r}: there are more than {MOST_WAYS:,} ways to choose {count} of {len(chosen)} selections"
        )
    return "(" + " or ".join(f"({' and '.join(way)})" for way in combinations(chosen, count)) + ")"
