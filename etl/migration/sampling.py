"""Types of the members of JSON objects in the lines of a sample."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from etl.migration.draft import FIELD_NAME, clean_name
from etl.migration.values import NOTHING, NUMBER, TEXT, TRUTH, WHOLE, common_type

MAX_LINES = 10_000
MAX_MEMBERS = 500


class Member(NamedTuple):
    """A member of JSON objects."""

    type: str
    path: str
    """In the language of the parser json's ``paths``: ``labels["a.b"]``."""


class Sample(dict[str, Member]):
    """Members of the JSON objects in lines by their dotted names, and the lines."""

    lines: Sequence[str] = ()


def pair_keys(sample: Mapping[str, Member], value_split: str) -> Iterator[str]:
    """Keys before separators of values in the lines of a sample."""
    try:
        pattern = re.compile(rf"([A-Za-z_@][\w@-]*)(?:{value_split})", re.ASCII)
    except re.error:
        return
    found = (key for line in getattr(sample, "lines", ()) for key in pattern.findall(line))
    yield from itertools.islice(dict.fromkeys(key if isinstance(key, str) else key[0] for key in found), MAX_MEMBERS)


def json_members(lines: Iterable[str]) -> Sample:
    """Name of each member, dotted, → what it is; empty if no line is a JSON object."""
    found: dict[str, Member] = {}
    lines = list(itertools.islice(lines, MAX_LINES))
    for line in lines:
        if not line.lstrip().startswith("{"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for name, path, type_ in _members("", "", value):
            if name in found or len(found) < MAX_MEMBERS:
                found[name] = Member(_either_type(found[name].type if name in found else NOTHING, type_), path)
    objects = {name.rsplit(".", count)[0] for name in found for count in range(1, name.count(".") + 1)}
    made = Sample(
        {name: Member(TEXT if one.type == NOTHING else one.type, one.path) for name, one in found.items() if name not in objects}
    )
    made.lines = lines
    return made


def _members(prefix: str, path: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, member in value.items():
        full, at = f"{prefix}{clean_name(name)}", member_path(path, name)
        if not FIELD_NAME.fullmatch(full):
            continue
        if isinstance(member, dict) and member:
            yield from _members(f"{full}.", at, member)
        else:
            yield full, at, _type(member)


def member_path(path: str, name: str) -> str:
    """The path of a member of the object at a path."""
    if _PLAIN.fullmatch(name):
        return f"{path}.{name}" if path else name
    return f"{path}[{json.dumps(name)}]"


_PLAIN = re.compile(r"[A-Za-z_@][\w@-]*", re.ASCII)


def _either_type(one: str, other: str) -> str:
    """The type of a member in all objects; an array in some and a single value in others is a text."""
    found = common_type(one, other)
    return TEXT if found.startswith("array<") and not {one, other} <= {found, NOTHING} else found


def _type(value: Any) -> str:
    if isinstance(value, list):
        items = {_type(one) for one in value} - {NOTHING}
        item = items.pop() if len(items) == 1 else TEXT
        return f"array<{item}>" if not item.startswith("array") else TEXT
    if isinstance(value, dict):
        return TEXT
    names = {bool: TRUTH, int: WHOLE, float: NUMBER, str: TEXT}
    return names.get(type(value), NOTHING)
