"""Checks whether a glob matches a path without listing files, for paths that do not exist yet."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase


def is_matched(path: str, pattern: str, exclude: Iterable[str] = ()) -> bool:
    """Return whether a glob with ``**`` would find an absolute path; links to folders are followed in both."""
    if not path.startswith("/"):
        return False
    wanted = os.path.abspath(os.path.expanduser(pattern))
    if any(fnmatchcase(path, one) or fnmatchcase(os.path.basename(path), one) for one in exclude):
        return False
    return _matches(path.split("/"), wanted.split("/")) or _matches(
        _resolve_links(path).split("/"), _resolve_links(wanted).split("/")
    )


def _resolve_links(path: str) -> str:
    """Resolve the links of the path's literal folders."""
    parts = path.split("/")
    literal = next((at for at, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts) - 1)
    return "/".join([os.path.realpath("/".join(parts[:literal]) or "/").rstrip("/"), *parts[literal:]])


def _matches(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Match part by part; ``**`` matches any number of folders, and no wildcard a leading dot, as in `glob`."""
    if not wanted:
        return not parts
    if wanted[0] == "**":
        here = bool(parts) and not parts[0].startswith(".")
        return _matches(parts, wanted[1:]) or (here and _matches(parts[1:], wanted))
    if not parts or (parts[0].startswith(".") and not wanted[0].startswith(".")):
        return False
    return fnmatchcase(parts[0], wanted[0]) and _matches(parts[1:], wanted[1:])
