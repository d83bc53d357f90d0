"""Whether a glob would find a path, without a look at what is there: for paths that do not exist yet."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase


def is_matched(path: str, pattern: str, exclude: Iterable[str] = ()) -> bool:
    """Whether an absolute path would be found by a glob with ``**``; folders that are links are followed in both."""
    if not path.startswith("/"):
        return False
    wanted = os.path.abspath(os.path.expanduser(pattern))
    if any(fnmatchcase(path, one) or fnmatchcase(os.path.basename(path), one) for one in exclude):
        return False
    return _fits(path.split("/"), wanted.split("/")) or _fits(_resolved(path).split("/"), _resolved(wanted).split("/"))


def _resolved(path: str) -> str:
    """The path with the links of its literal folders followed."""
    parts = path.split("/")
    literal = next((at for at, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts) - 1)
    return "/".join([os.path.realpath("/".join(parts[:literal]) or "/").rstrip("/"), *parts[literal:]])


def _fits(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Part by part; ``**`` stands for any number of folders, and no wildcard for a leading dot, as in `glob`."""
    if not wanted:
        return not parts
    if wanted[0] == "**":
        here = bool(parts) and not parts[0].startswith(".")
        return _fits(parts, wanted[1:]) or (here and _fits(parts[1:], wanted))
    if not parts or (parts[0].startswith(".") and not wanted[0].startswith(".")):
        return False
    return fnmatchcase(parts[0], wanted[0]) and _fits(parts[1:], wanted[1:])
