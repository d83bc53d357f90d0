"""What the values of messages are called: by the word before them, by ECS where that leaves no doubt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from etl.inference.column_names import make_unique

_BY_KIND = {
    "ip": "ip",
    "int": "number",
    "float": "number",
    "uuid": "uuid",
    "url": "url.original",
    "email": "user.email",
    "mac": "mac",
    "hex": "hex",
    "path": "file.path",
    "quote": "text",
    "word": "value",
    "time": "time",
}
_IPS = {
    "source.ip": {"from", "src", "source", "client", "peer", "remote", "ip", "saddr", "rhost", "addr"},
    "destination.ip": {"to", "dst", "dest", "destination", "daddr"},
}
_USER = {"user", "username", "user_name"}
_FILLERS = (
    "a an the in on at of for to by from with and or is are was were be as it its this that not no than after before into over "
    "about had has have get set done total"
)
_NO_NAMES = frozenset(_FILLERS.split())
_OBJECTS = (
    "message timestamp log process host http url file source destination user event error client server network service agent "
    "container cloud related rule observer ecs tags labels trace span transaction"
)
_ROOTS = frozenset(_OBJECTS.split())
"""Names that ECS uses for objects: a value cannot have them."""
_UNIT = re.compile(r"ms|sec|secs|seconds|s|bytes|kb|mb|gb|us|minutes|files|rows|records|items|events|users|connections|percent")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*")


def value_name(kind: str, before: Sequence[str], after: Sequence[str], taken: set[str]) -> str:
    """The name of a value: ``before`` are the words before it, the nearest last, ``after`` those that follow."""
    key = next((word for word in reversed(before[-2:]) if _WORD.fullmatch(word) and word.lower() not in _NO_NAMES), "")
    near = (before[-1] if before else "").lower()
    name = _ecs(kind, near, key.lower(), taken) or _plain(kind, key, after)
    return make_unique(name, taken)


def _ecs(kind: str, near: str, key: str, taken: set[str]) -> str:
    if kind == "ip":
        return next((name for name, words in _IPS.items() if near in words), "")
    if near == "port" and kind == "int" and "source.ip" in taken:
        return "source.port"
    if kind == "word" and near in _USER:
        return "user.name"
    if kind == "int" and near == "pid":
        return "process.pid"
    return ""


def _plain(kind: str, key: str, ahead: Sequence[str]) -> str:
    if kind in ("int", "float") and ahead and _UNIT.fullmatch(ahead[0].lower()):
        unit = ahead[0].lower()
        return f"{_snake(key)}_{unit}" if key and _snake(key) else unit
    name = _snake(key)
    if not name or kind in ("url", "email", "time"):
        return _BY_KIND[kind]
    return f"{name}_{_BY_KIND[kind].rpartition('.')[2]}" if name in _ROOTS else name


def _snake(word: str) -> str:
    """``block_id`` for ``Block-ID`` and ``blockId``."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word)
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:32]
