"""Methods of texts, lists, maps and other objects that scripts of Painless call, and static methods, with the meaning of Java."""

from __future__ import annotations

import base64
import functools
import hashlib
import math
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from etl.migration.ingest.painless.python_times import TIME_METHODS, TIME_STATICS, time_text


class Matcher:
    """A regular expression on a text."""

    def __init__(self, pattern: str, value: str) -> None:
        self.pattern, self.value, self.at = re.compile(pattern), value, 0
        self.found: re.Match[str] | None = None

    def matches(self) -> bool:
        self.found = self.pattern.fullmatch(self.value)
        return self.found is not None

    def find(self) -> bool:
        self.found = self.pattern.search(self.value, self.at) if self.at <= len(self.value) else None
        if self.found is not None:
            self.at = self.found.end() + (self.found.end() == self.found.start())
        return self.found is not None

    def group(self, which: int | str = 0) -> str | None:
        if self.found is None:
            raise ValueError("no match")
        return self.found[which]


def text(value: Any) -> str:
    """A value as Java writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e7:
        return f"{value:.1f}"
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, list):
        return f"[{', '.join(text(one) for one in value)}]"
    return str(value)


class Entry:
    """A member of an object, or of a map."""

    def __init__(self, owner: dict[str, Any], key: str) -> None:
        self.owner, self.key = owner, key


class Iteration:
    """Items one after the other; those of an object can be removed."""

    def __init__(self, items: Sequence[Any], remove: Callable[[Any], None]) -> None:
        self.items, self.at, self.remove = items, 0, remove

    def next(self) -> Any:
        self.at += 1
        return self.items[self.at - 1]


class View:
    """Keys, values or members of an object."""

    def __init__(self, owner: dict[str, Any], item: Callable[[str], Any]) -> None:
        self.owner, self.item = owner, item

    def __iter__(self) -> Iterator[Any]:
        return iter([self.item(key) for key in list(self.owner)])

    def __len__(self) -> int:
        return len(self.owner)

    def remove_if(self, condition: Callable[[Any], Any]) -> bool:
        gone = [key for key in self.owner if condition(self.item(key))]
        for key in gone:
            del self.owner[key]
        return bool(gone)


class Tokenizer:
    """Parts of a text between separators, none of them empty."""

    def __init__(self, value: str, separators: str = " \t\n\r\f") -> None:
        self.tokens = [one for one in re.split(f"[{re.escape(separators)}]", value) if one] if separators else [value]
        self.at = 0

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]


class Builder:
    """A text that grows."""

    def __init__(self, value: Any = "") -> None:
        self.value = value if isinstance(value, str) else ""

    def append(self, value: Any) -> Builder:
        self.value += text(value)
        return self

    def __str__(self) -> str:
        return self.value


def raise_error(error: Exception) -> Any:
    """Raise an error in an expression."""
    raise error


def _digit(character: str, radix: int) -> int:
    try:
        return int(character, radix) if character.isalnum() else -1
    except ValueError:
        return -1


def _whole(value: Any, radix: int = 10) -> int:
    if not isinstance(value, str) or not re.fullmatch(r"[+-]?\w+", value, re.ASCII) or "_" in value:
        raise ValueError(f"{value!r} is not a whole number")
    return int(value, radix)


def _number(value: Any) -> float:
    return float(value.strip().rstrip("dDfF")) if isinstance(value, str) else float(value)


def _character(code: Any) -> str:
    """``(char) 65``."""
    return chr(code) if isinstance(code, int) else str(code)


STATICS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("Integer.parseInt", "Long.parseLong", "Short.parseShort"), _whole),
    **dict.fromkeys(("Integer.valueOf", "Long.valueOf"), lambda x, *r: _whole(x, *r) if isinstance(x, str) else int(x)),
    **dict.fromkeys(("Float.parseFloat", "Double.parseDouble", "Double.valueOf", "Float.valueOf"), _number),
    "Boolean.parseBoolean": lambda x: isinstance(x, str) and x.lower() == "true",
    "String.valueOf": text,
    **dict.fromkeys(("Integer.toString", "Long.toString", "Objects.toString"), text),
    "Integer.toHexString": lambda x: format(x & 0xFFFFFFFF, "x"),
    "Long.toHexString": lambda x: format(x & 0xFFFFFFFFFFFFFFFF, "x"),
    "Long.decode": lambda x: int(x, 0),
    "Integer.decode": lambda x: int(x, 0),
    "Character.digit": _digit,
    "Character.isDigit": lambda x: x.isdigit(),
    "Character.isLetter": lambda x: x.isalpha(),
    "Character.isLetterOrDigit": lambda x: x.isalnum(),
    "Character.isWhitespace": lambda x: x.isspace(),
    "Character.toString": text,
    "String.join": lambda separator, *x: separator.join(text(one) for one in (x[0] if isinstance(x[0], list) else x)),
    "Math.round": lambda x: math.floor(x + 0.5),
    **{f"Math.{name}": lambda x, name=name: float(getattr(math, name)(x)) for name in ("floor", "ceil", "sqrt")},
    "Math.abs": abs,
    "Math.max": max,
    "Math.min": min,
    "Math.pow": lambda x, y: float(x) ** y,
    "Math.floorMod": lambda x, y: x % y,
    "Math.floorDiv": lambda x, y: x // y,
    "Collectors.toList": lambda: list,
    "Collectors.toSet": lambda: lambda x: list(dict.fromkeys(x)),
    "Collectors.joining": lambda separator="": lambda x: separator.join(text(one) for one in x),
    **dict.fromkeys(("Arrays.stream", "List.copyOf"), list),
    **dict.fromkeys((f"Collections.unmodifiable{kind}" for kind in ("Map", "List", "Set")), lambda x: x),
    "Objects.equals": lambda x, y: x == y,
    "Arrays.asList": lambda *x: list(x[0]) if len(x) == 1 and isinstance(x[0], list) else list(x),
    "Collections.emptyList": list,
    "URLDecoder.decode": lambda x, *_: urllib.parse.unquote_plus(x),
    **TIME_STATICS,
}
"""Static methods by class and name."""


def _replace_item(target: list[Any], index: int, value: Any) -> Any:
    before, target[index] = target[index], value
    return before


def _remove_item(target: list[Any], what: Any) -> Any:
    if isinstance(what, int) and not isinstance(what, bool):
        return target.pop(what)
    if what not in target:
        return False
    target.remove(what)
    return True


def _remove_where(target: list[Any], condition: Callable[[Any], Any]) -> bool:
    before = len(target)
    target[:] = [one for one in target if not condition(one)]
    return len(target) < before


def _set_member(target: dict[str, Any], key: str, value: Any) -> Any:
    before = target.get(key)
    target[key] = value
    return before


def _all_of(target: list[Any], more: Iterable[Any]) -> bool:
    target.extend(more)
    return True


def _add(target: list[Any], *value: Any) -> bool:
    target.insert(*value) if len(value) == 2 else target.append(value[0])
    return True


def _pieces(value: str, separator: str, limit: int = 0) -> list[str]:
    found = value.split(separator, limit - 1) if limit > 0 else value.split(separator)
    while limit == 0 and len(found) > 1 and not found[-1]:
        found.pop()
    return found


def _without_ends(parts: list[str]) -> list[str]:
    """The parts of a text without empty ones at the end."""
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _sort(items: list[Any], compare: Callable[[Any, Any], int] | None = None) -> None:
    items.sort(key=functools.cmp_to_key(compare) if compare else None)


_TEXT: Mapping[str, Callable[..., Any]] = {
    "contains": lambda x, part: part in x,
    "startsWith": lambda x, part, at=0: x.startswith(part, at),
    "endsWith": lambda x, part: x.endswith(part),
    "equalsIgnoreCase": lambda x, other: other is not None and x.lower() == other.lower(),
    "toLowerCase": lambda x, *_: x.lower(),
    "toUpperCase": lambda x, *_: x.upper(),
    **dict.fromkeys(("trim", "strip"), lambda x: x.strip()),
    "length": len,
    "isEmpty": lambda x: not x,
    "isBlank": lambda x: not x.strip(),
    "indexOf": lambda x, part, at=0: x.find(part, at),
    "lastIndexOf": lambda x, part: x.rfind(part),
    "substring": lambda x, first, last=None: (
        x[first : len(x) if last is None else last]
        if 0 <= first <= (len(x) if last is None else last) <= len(x)
        else raise_error(IndexError("substring"))
    ),
    "charAt": lambda x, at: x[at] if at >= 0 else raise_error(IndexError("charAt")),
    "toCharArray": list,
    "replace": lambda x, part, other: x.replace(part, other),
    "replaceAll": lambda x, pattern, other: re.sub(pattern, _replacement(other), x),
    "replaceFirst": lambda x, pattern, other: re.sub(pattern, _replacement(other), x, count=1),
    "concat": lambda x, other: x + other,
    "splitOnToken": _pieces,
    **{
        name: lambda x, name=name: hashlib.new(name, x.encode(), usedforsecurity=False).hexdigest() for name in ("sha1", "sha256")
    },
    "matcher": Matcher,
    "split": lambda pattern, x: _without_ends(re.split(pattern, x)),
    "compareTo": lambda x, other: (x > other) - (x < other),
    "encodeBase64": lambda x: base64.b64encode(x.encode()).decode(),
    "decodeBase64": lambda x: base64.b64decode(x).decode("utf-8", "replace"),
    "matches": lambda x, pattern: bool(re.fullmatch(pattern, x)),
}


def _replacement(value: Any) -> Any:
    """A replacement, with ``$1`` for the groups of the match."""
    return re.sub(r"\$(\d)", r"\\\1", value.replace("\\", "\\\\")) if isinstance(value, str) else value


_MAP: Mapping[str, Callable[..., Any]] = {
    "get": lambda x, key: x.get(key),
    "getOrDefault": lambda x, key, other: x.get(key, other),
    "put": _set_member,
    "putIfAbsent": lambda x, key, value: x.setdefault(key, value),
    "putAll": lambda x, other: x.update(other),
    "remove": lambda x, key: x.pop(key, None),
    "containsKey": lambda x, key: key in x,
    "containsValue": lambda x, value: value in x.values(),
    "keySet": lambda x: View(x, lambda key: key),
    "values": lambda x: View(x, lambda key: x[key]),
    "entrySet": lambda x: View(x, lambda key: Entry(x, key)),
    "forEach": lambda x, do: [do(key, x[key]) for key in list(x)] and None,
    "size": len,
    "isEmpty": lambda x: not x,
    "clear": lambda x: x.clear(),
}
_LIST: Mapping[str, Callable[..., Any]] = {
    "get": lambda x, at: x[at] if at >= 0 else raise_error(IndexError(at)),
    "set": _replace_item,
    "add": _add,
    "addAll": _all_of,
    "remove": _remove_item,
    "removeIf": _remove_where,
    "removeAll": lambda x, other: _remove_where(x, lambda one: one in other),
    "contains": lambda x, value: value in x,
    "indexOf": lambda x, value: x.index(value) if value in x else -1,
    "iterator": lambda x: Iteration(list(x), x.remove),
    "stream": list,
    "distinct": lambda x: list(dict.fromkeys(x)),
    "filter": lambda x, condition: [one for one in x if condition(one)],
    "map": lambda x, change: [change(one) for one in x],
    **dict.fromkeys(("anyMatch", "any"), lambda x, condition: any(condition(one) for one in x)),
    **dict.fromkeys(("allMatch", "every"), lambda x, condition: all(condition(one) for one in x)),
    "noneMatch": lambda x, condition: not any(condition(one) for one in x),
    "find": lambda x, condition: next((one for one in x if condition(one)), None),
    "findAll": lambda x, condition: [one for one in x if condition(one)],
    "forEach": lambda x, do: [do(one) for one in list(x)] and None,
    "collect": lambda x, how: how(x),
    "join": lambda x, separator: separator.join(text(one) for one in x),
    "sort": _sort,
    "subList": lambda x, first, last: x[first:last],
    **dict.fromkeys(("size", "count"), len),
    "isEmpty": lambda x: not x,
    "clear": lambda x: x.clear(),
}
METHODS: Sequence[tuple[type, Mapping[str, Callable[..., Any]]]] = (
    (str, _TEXT),
    (dict, _MAP),
    (list, _LIST),
    (
        View,
        {
            "iterator": lambda x: Iteration(list(x), lambda item: x.owner.pop(item.key if isinstance(item, Entry) else item)),
            "removeIf": View.remove_if,
            "contains": lambda x, value: value in list(x),
            "stream": list,
            "size": len,
            "isEmpty": lambda x: not len(x),
        },
    ),
    (
        Entry,
        {
            "getKey": lambda x: x.key,
            "getValue": lambda x: x.owner.get(x.key),
            "setValue": lambda x, value: _set_member(x.owner, x.key, value),
        },
    ),
    (
        Iteration,
        {
            "hasNext": lambda x: x.at < len(x.items),
            "next": Iteration.next,
            "remove": lambda x: x.remove(x.items[x.at - 1]),
        },
    ),
    (
        Tokenizer,
        {
            "nextToken": Tokenizer.next,
            **dict.fromkeys(("hasMoreTokens", "hasNext"), lambda x: x.at < len(x.tokens)),
            "countTokens": lambda x: len(x.tokens) - x.at,
        },
    ),
    (
        Matcher,
        {
            "matches": Matcher.matches,
            "find": Matcher.find,
            "group": Matcher.group,
            "replaceAll": lambda x, other: x.pattern.sub(_replacement(other), x.value),
            "replaceFirst": lambda x, other: x.pattern.sub(_replacement(other), x.value, count=1),
        },
    ),
    (re.Match, {"group": lambda x, which=0: x[which]}),
    *TIME_METHODS,
    (Builder, {"append": Builder.append, "length": lambda x: len(x.value), "reverse": lambda x: Builder(x.value[::-1])}),
)
"""Methods by the kind of the value."""

ANY: Mapping[str, Callable[..., Any]] = {
    "equals": lambda x, other: x == other,
    "toString": text,
    "hashCode": hash,
    **dict.fromkeys(("intValue", "longValue", "(int)", "(long)", "(Integer)", "(Long)", "(short)", "(byte)"), int),
    **dict.fromkeys(("doubleValue", "floatValue", "(double)", "(float)", "(Double)", "(Float)"), float),
    **dict.fromkeys(("(char)",), _character),
    **dict.fromkeys(("(def)", "(String)", "(List)", "(Map)", "(Object)", "(boolean)", "(Boolean)"), lambda x: x),
}
"""Methods of any value."""

METHOD_NAMES = frozenset(name for _, methods in METHODS for name in methods) | ANY.keys()
