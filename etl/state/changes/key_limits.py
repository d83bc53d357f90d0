"""The largest keys of steps that compute results again from all rows of a key."""

from __future__ import annotations

MAX_ROWS_OF_KEY = 1_000_000
"""They take a second or two of CPU in each micro-batch that changes the key."""

MAX_BYTES_OF_KEY = 1 << 30
"""Of its rows in state, and of the changes that a micro-batch makes of some keys: Arrow's texts have 31 bits for them."""
