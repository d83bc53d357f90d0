"""Sets of bytes as bit masks of 257 bits: bit n is byte n, bit 256 is the edge of the text."""

from __future__ import annotations

from etl.scanner.char_class import ASCII, WORD

EDGE = 1 << 256
"""The bit of the text's end for a look-ahead, and of its beginning for a look-behind."""

BYTES = EDGE - 1
NON_ASCII = BYTES & ~ASCII
"""The bytes of characters beyond ASCII."""

CONTINUATIONS = ((1 << 64) - 1) << 0x80
"""Continuation bytes of UTF-8."""

ANY = BYTES | EDGE
"""All bytes and the edge."""

NEWLINE = 1 << ord("\n")
WORD_BYTES = WORD.ascii
"""ASCII letters, digits and the underscore."""

NON_WORD = ANY & ~WORD_BYTES
"""All other bytes and the edge; characters beyond ASCII are not word characters."""
