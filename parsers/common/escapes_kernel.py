"""The kernel that resolves escapes with a backslash."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, store_byte
from etl.columns.kernels import kernel
from parsers.common.unicode_escapes import read_escape, write_utf8

_ONE, _TWO = np.uint64(1), np.uint64(2)
_BACKSLASH = np.uint8(0x5C)
_ZERO = np.uint8(0)


@kernel
def unescape(address: Any, length: Any, rows: Any, letters: Any, unicode: Any, target: Any) -> Any:
    """Write the texts of some rows without escapes to ``target`` (at least their size), and set their addresses and lengths.

    ``letters[b]`` is what a backslash and ``b`` stand for, 0 where both stay; ``unicode`` resolves ``\\uXXXX``.
    """
    out = target
    for number in range(rows.shape[0]):
        row = rows[number]
        at, begin = address[row], out
        end = at + np.uint64(max(length[row], np.int64(0)))
        while at < end:
            byte = load_byte(at)
            if byte == _BACKSLASH and at + _ONE < end:
                if unicode:
                    code, after = read_escape(at, end)
                    if code >= 0:
                        out, at = write_utf8(out, code), after
                        continue
                meant = letters[load_byte(at + _ONE)]
                if meant != _ZERO:
                    store_byte(out, meant)
                    out, at = out + _ONE, at + _TWO
                    continue
            store_byte(out, byte)
            out, at = out + _ONE, at + _ONE
        address[row], length[row] = begin, np.int64(out - begin)
