"""Sets of bytes as masks of 257 bits: bit n is byte n, bit 256 the edge of the text."""

from __future__ import annotations

from etl.scanner.char_class import ASCII, WORD

EDGE = 1 << 256
"""The text's end for a look-ahead, its beginning for a look-behind."""

BYTES = EDGE - 1
HIGH = BYTES & ~ASCII
"""The bytes of characters beyond ASCII."""

TAILS = ((1 << 64) - 1) << 0x80
"""Continuation bytes of UTF-8."""

ANY = BYTES | EDGE
NEWLINE = 1 << ord("\n")
WORDS = WORD.ascii
NO_WORDS = ANY & ~WORDS
"""All bytes that are no word characters, and the edge; characters beyond ASCII are no word characters."""
