"""The escape of a character in a JSON text."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.digits import ONE
from etl.columns.intrinsics import store_byte, store_word
from etl.columns.kernels import kernel_function

MAX_ESCAPE = np.uint64(6)
"""Bytes of the longest escape, ``\\u001f``."""

_U00 = np.uint32(int.from_bytes(b"u00 ", "little"))
_LETTERS = np.zeros(256, np.uint8)
_LETTERS[[0x22, 0x5C, 0x0A, 0x0D, 0x09, 0x08, 0x0C]] = np.frombuffer(b'"\\nrtbf', np.uint8)
"""The letter after the backslash; 0 for characters written as ``\\u00xx``."""


@kernel_function
def write_escape(out: Any, byte: Any) -> Any:
    """Write the escape of a quote, backslash or control character; returns the address after it."""
    letter = _LETTERS[byte]
    store_byte(out, np.uint8(0x5C))
    if letter != 0:
        store_byte(out + ONE, letter)
        return out + np.uint64(2)
    store_word(out + ONE, _U00)
    store_byte(out + np.uint64(4), np.uint8(ord("0") + (byte >> 4)))
    low = byte & np.uint8(15)
    store_byte(out + np.uint64(5), np.uint8(low + (ord("0") if low < 10 else ord("a") - 10)))
    return out + MAX_ESCAPE
