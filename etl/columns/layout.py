"""The layout of an Arrow view: 16 bytes, of which the first 4 are the length of its text.

The rest is the text itself if it has at most `INLINE` bytes, else its first 4 bytes, the number of its buffer and its offset
there, 4 bytes each (Arrow Columnar Format, "Variable-size Binary View Layout").
"""

INLINE = 12
"""Bytes of the longest text that is stored inside its view."""
