"""The layout of text columns in memory: locates the address and length of each text, for every text type.

A view has 16 bytes. The first 4 are the length of its text; the rest is the text itself if it has at most `INLINE` bytes, else
its first 4 bytes, the number of its buffer and its offset there, 4 bytes each (Arrow Columnar Format, "Variable-size Binary
View Layout").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

INLINE = 12
"""Bytes of the longest text that is stored inside its view."""

Located: TypeAlias = tuple[Any, Any, pa.Buffer | None, int, pa.Array]
"""Addresses, lengths, the buffer of all texts and its address, and the owner of the memory: the fields of `Texts`."""


def locate_texts(array: pa.Array) -> Located:
    """Locate the texts of a string, large_string, string_view or null array, sliced or not."""
    return _LOCATE[array.type](array)


def boolean_values(mask: pa.BooleanArray) -> Any:
    """bool[n] of an array without nulls."""
    return mask.to_numpy(zero_copy_only=False)


def address_of(buffer: pa.Buffer | None) -> Any:
    """The address of a buffer as uint64, which kernels take; 0 for None."""
    import numpy as np

    return np.uint64(0 if buffer is None else buffer.address)


def _locate_views(array: pa.Array) -> Located:
    import numpy as np

    from etl.columns.views import locate_views

    bits, views, *data = array.buffers()
    address, length = _room(array)
    buffers = np.array([buffer.address for buffer in data], np.uint64)
    if len(array):
        locate_views(np.uint64(views.address), buffers, address_of(bits), np.int64(array.offset), address, length)
    if len(data) == 1:
        return address, length, data[0], data[0].address, array
    return address, length, None, 0, array


def _locate_strings(width: str) -> Callable[[pa.Array], Located]:
    def locate(array: pa.Array) -> Located:
        import numpy as np

        from etl.columns.views import locate_strings

        bits, bounds, data = array.buffers()
        address, length = _room(array)
        if not len(array) or data is None:
            length[:] = np.where(boolean_values(array.is_valid()), 0, -1)
            address[:] = address_of(bounds)
            return address, length, None, 0, array
        offsets = np.frombuffer(bounds, width)[array.offset : array.offset + len(array) + 1]
        locate_strings(offsets, np.uint64(data.address), address_of(bits), np.int64(array.offset), address, length)
        used = data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))  # a slice of a huge column may be within 2 GiB
        return address, length, used, used.address, array

    return locate


def _locate_nulls(array: pa.Array) -> Located:
    return locate_texts(array.cast(pa.string()))


_LOCATE: dict[pa.DataType, Callable[[pa.Array], Located]] = {
    pa.string_view(): _locate_views,
    pa.string(): _locate_strings("<i4"),
    pa.large_string(): _locate_strings("<i8"),
    pa.null(): _locate_nulls,
}


def _room(array: pa.Array) -> tuple[Any, Any]:
    import numpy as np

    return np.empty(len(array), np.uint64), np.empty(len(array), np.int64)
