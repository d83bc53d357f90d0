"""Custom fields of CEF under the names their labels give them: ``cs1=block cs1Label=Rule`` is ``Rule=block``."""

from __future__ import annotations

from typing import Any

import numpy as np

from parsers.cef.names import LABELLED
from parsers.pairs.pairs import Pairs, distinct

Array = np.ndarray[Any, Any]

UNLABELLED = "has a custom field without a label, or a custom field or label twice"


def labelled(pairs: Pairs) -> tuple[Pairs, Array]:
    """Pairs with labels for keys, without the labels that were used; and which rows (bool) have a custom field without a
    label, or one of both twice."""
    rows = len(pairs.bounds) - 1
    numbers, keys = distinct(pairs.keys)
    known = [LABELLED.get(key.decode("utf-8", "replace"), (-1, False)) for key in keys]
    custom, is_label = (np.array([entry[place] for entry in known], np.int64)[numbers] for place in (0, 1))
    row = np.repeat(np.arange(rows), np.diff(pairs.bounds))
    slots = row * (len(LABELLED) + 1) + custom
    values, labels = (np.flatnonzero((custom >= 0) & (is_label == kind)) for kind in (0, 1))
    labels = labels[np.argsort(slots[labels], kind="stable")]
    at = np.searchsorted(slots[labels], slots[values])
    found = np.append(slots[labels], -1)[at] == slots[values]
    wrong = np.zeros(rows, bool)
    wrong[row[values[~found]]] = True
    for several in (slots[labels], np.sort(slots[values])):
        wrong[several[1:][several[1:] == several[:-1]] // (len(LABELLED) + 1)] = True
    return _renamed(pairs, values[found], labels[at[found]]), wrong


def _renamed(pairs: Pairs, values: Array, labels: Array) -> Pairs:
    """``values`` get the values of ``labels`` as keys, and these go."""
    address, length = pairs.keys.address.copy(), pairs.keys.length.copy()
    address[values], length[values] = pairs.values.address[labels], pairs.values.length[labels]
    kept = np.ones(len(address), bool)
    kept[labels] = False
    bounds = np.concatenate([[0], np.cumsum(kept)])[pairs.bounds]
    stay = np.flatnonzero(kept)
    owner = (pairs.keys.owner, pairs.values.owner)
    keys = pairs.keys._replace(address=address[stay], length=length[stay], buffer=None, base=0, owner=owner)
    return Pairs(bounds, keys, pairs.values.at(stay))
