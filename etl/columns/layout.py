"""How Arrow lays out a view: 16 bytes, of which the first 4 are the length of its text.

What follows is the text itself when it has at most `INLINE` bytes, else its first 4 bytes, the number of its buffer and its
offset there, 4 bytes each (Arrow Columnar Format, "Variable-size Binary View Layout").
"""

INLINE = 12
"""Bytes of the longest text that lies inside its view."""
