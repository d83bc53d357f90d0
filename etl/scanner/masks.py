"""Sets of bytes as 257-bit numbers: bit n is byte n, bit 256 the edge of the text."""

from __future__ import annotations

from etl.scanner.char_class import ASCII, WORD

EDGE = 1 << 256
"""No byte at all: the text's end when looking ahead, its beginning when looking behind."""

BYTES = EDGE - 1
HIGH = BYTES & ~ASCII
"""The bytes that characters beyond ASCII are made of."""

TAILS = ((1 << 64) - 1) << 0x80
"""Bytes that no character begins with."""

ANY = BYTES | EDGE
NEWLINE = 1 << ord("\n")
WORDS = WORD.ascii
NO_WORDS = ANY & ~WORDS
"""What is no word character; characters beyond ASCII are none."""
