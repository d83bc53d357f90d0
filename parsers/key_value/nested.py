"""Values that are pairs themselves: ``a=(b=1 c=2)`` is ``a.b=1 a.c=2``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc

from etl.columns.texts import Texts, owned_array
from parsers.key_value.texts import valid
from parsers.pairs.columns import text_column
from parsers.pairs.pairs import Pairs

Array = np.ndarray[Any, Any]

MOST_LEVELS = 5
"""Values inside values that are looked into."""


def nested(pairs: Pairs, cut: Callable[[Texts], Pairs]) -> Pairs:
    """The pairs, with the pairs of their values in place of those that have any. ``cut`` reads values as rows of texts."""
    for _ in range(MOST_LEVELS):
        inner = cut(pairs.values)
        if not len(inner.keys.length):
            break
        pairs = _merged(pairs, inner)
    return pairs


def _merged(pairs: Pairs, inner: Pairs) -> Pairs:
    many = np.diff(inner.bounds)
    parents = np.repeat(np.arange(len(many)), many)
    starts = np.concatenate([[0], np.cumsum(np.maximum(many, 1))])
    kept = np.flatnonzero(many == 0)
    order = np.empty(starts[-1], np.int64)
    order[starts[kept]] = kept
    order[starts[parents] + np.arange(len(parents)) - inner.bounds[parents]] = len(many) + np.arange(len(parents))
    return Pairs(
        starts[pairs.bounds],
        _chosen(pairs.keys, _joined(pairs.keys, parents, inner.keys), order),
        _chosen(pairs.values, inner.values, order),
    )


def _joined(keys: Texts, parents: Array, inner: Texts) -> Texts:
    """``parent.key`` for each inner key."""
    front, behind = text_column(keys, parents), text_column(inner, np.arange(len(inner.length)))
    return Texts.of(pc.binary_join_element_wise(valid(owned_array(front)), valid(owned_array(behind)), "."))


def _chosen(texts: Texts, others: Texts, order: Array) -> Texts:
    """Texts of both by number, which may lie in any buffer."""
    address = np.concatenate([texts.address, others.address])[order]
    length = np.concatenate([texts.length, others.length])[order]
    if texts.buffer is not None and others.buffer is texts.buffer:
        return texts._replace(address=address, length=length, owner=(texts.owner, others.owner))
    return Texts(address, length, None, 0, (texts, others))
