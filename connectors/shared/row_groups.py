"""Rows of a batch, sorted so that those of a group follow each other."""

from __future__ import annotations

import pyarrow as pa


def sort_by_group(groups: pa.Array) -> pa.Array:
    """Return the rows in the order of their groups' first events; events of one group keep their order."""
    import numpy as np

    return pa.array(np.argsort(groups.dictionary_encode().indices.to_numpy(zero_copy_only=False), kind="stable"))
