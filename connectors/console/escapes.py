"""Escapes for characters that may control a terminal: move the cursor, change colours or the reading direction."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_CONTROL_IN_JSON = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xef\xbb\xbf")
"""Those that JSON does not escape, in UTF-8."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_text(text: str) -> str:
    """Return a text with ``\\n``, ``\\x1b`` or ``\\u202e`` in place of each such character."""
    return _CONTROL.sub(lambda found: _SHORT.get(found[0]) or _escape(found[0]), text)


def escape_json(lines: bytes | memoryview) -> bytes:
    """Return JSON in UTF-8 with ``\\u202e`` in place of each such character."""
    return _CONTROL_IN_JSON.sub(lambda found: f"\\u{ord(found[0].decode()):04x}".encode(), lines)


def _escape(character: str) -> str:
    return f"\\x{ord(character):02x}" if character < "\u0100" else f"\\u{ord(character):04x}"
