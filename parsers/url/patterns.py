"""How URLs are written: patterns of the scanner, the first of which that matches counts.

Source: RFC 3986, and where it would mislead what browsers do (WHATWG URL): a backslash ends a domain. Logs also hold
request targets (``/path?query``, ``*``; RFC 9112, 3.2) and addresses without a scheme (``example.com:443``).
"""

from __future__ import annotations

from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Node
from parsers.grok.compiler import compiled

_SCHEME = r"(?<scheme>[A-Za-z][A-Za-z0-9+.\-]+):"
_USER = r"(?:(?<username>[^/?#@:\\]*)(?::(?<password>[^/?#\\]*))?@)?"
_NUMERIC = r"\[[0-9A-Za-z:.%_\-]+\]"
_PORT = r"(?::(?<port>[0-9]{0,5}))?"
_EXTENSION = r"(?:\.(?<extension>[^?#./\\]+))?"
_PATH = rf"(?<path>(?:[/\\][^?#]*?{_EXTENSION})?)"
_BEHIND = r"(?:\?(?<query>[^#]*))?(?:#(?<fragment>.*))?\z"

PATTERNS = (
    rf"\A{_SCHEME}//{_USER}(?<domain>{_NUMERIC}|[^/?#:@\[\]\\\s]*){_PORT}{_PATH}{_BEHIND}",
    rf"\A(?<path>/[^?#]*?{_EXTENSION}|\*)?{_BEHIND}",
    rf"\A(?<domain>{_NUMERIC}|[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]+)+\.?|localhost){_PORT}{_PATH}{_BEHIND}",
    rf"\A{_SCHEME}(?<path>/?[^/?#\s][^?#\s]*){_BEHIND}",
)
"""With a scheme and a host; a request's target; a host alone; a scheme without a host (``mailto:``, ``urn:``)."""


def trees() -> list[Node]:
    """The patterns as the scanner takes them."""
    found = [compiled(pattern, None, frozenset(), False) for pattern in PATTERNS]
    return [tree for tree in found if not isinstance(tree, PatternError)]
