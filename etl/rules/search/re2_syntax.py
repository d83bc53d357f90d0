"""RE2's regular expressions, rewritten for the scanner's automata where both surely mean the same.

Source: the page "RE2 regular expression syntax" of its manual. The dot stops at ``\\n`` only, ``$`` is the text's very end,
``\\s`` has no vertical tab, and ``(?i)`` folds letters beyond ASCII, too: all this is written out. What is not known here
for certain, or is refused by RE2, is left to RE2.
"""

from __future__ import annotations

import re

from etl.expressions import java_regex
from etl.expressions.java_characters import NoFormError
from etl.expressions.searches import search_tree
from etl.scanner.engine_choice import choose_engine
from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Node

_TOKEN = re.compile(
    r"""
    \\(?:x(?P<hex>[0-9a-fA-F]{2}) | (?P<set>[dDwWsS]) | (?P<edge>[Azb]) | (?P<control>[nrtf]) | (?P<sign>[^\w\s]))
    | (?P<open>\((?:\?:)?) (?!\?)
    | (?P<plain>[)|])
    | (?P<count>[*+?] | \{\d{1,3}(?:,\d{0,3})?\}) (?P<lazy>\??) (?![*+?])
    | (?P<begin>\^) | (?P<end>\$) | (?P<dot>\.)
    | \[(?P<negated>\^?) (?P<items>(?:\\(?:x[0-9a-fA-F]{2}|[dws]|[nrtf]|[^\w\s])|[^\\\[\]])+) \]
    | (?P<char>[^\\\[\](){}*+?^$.|])
    """,
    re.VERBOSE | re.DOTALL,
)
_ITEM = re.compile(r"\\x(?P<hex>..)|\\(?P<set>[dws])|\\(?P<control>[nrtf])|\\(?P<sign>.)|(?P<char>.)", re.DOTALL)
_FLAGS = re.compile(r"\(\?(?P<flags>[is]+)\)")
_SETS = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_FOLDED = {"k": "\u212a", "s": "\u017f"}
"""Letters of ASCII that equal another one without regard to case."""


class LeftError(ValueError):
    """The pattern is left to RE2."""


def automaton(pattern: str) -> Node | None:
    """What the scanner looks for, or None where RE2 has to."""
    try:
        tree = search_tree(java_regex.parse(rewritten(pattern)).tree, None)
    except (LeftError, NoFormError, PatternError, RecursionError):
        return None
    return tree if choose_engine(tree).engine == "scanner" else None


def rewritten(pattern: str) -> str:
    """The pattern in signs that RE2 and Java read alike. Raises LeftError."""
    flags = _FLAGS.match(pattern)
    on = flags["flags"] if flags else ""
    at, parts = flags.end() if flags else 0, []
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise LeftError(pattern)
        parts.append(_written(token, "i" in on, "s" in on))
        at = token.end()
    return "".join(parts)


def _written(token: re.Match[str], fold: bool, dot_all: bool) -> str:
    if token["items"] is not None:
        return f"[{token['negated']}{_class(token['items'], fold)}]"
    if token["set"]:
        return f"[{'^' if token['set'].isupper() else ''}{_set(token['set'].lower(), fold)}]"
    if token["dot"]:
        return r"[\s\S]" if dot_all else r"[^\n]"
    if token["begin"] or token["end"]:
        return r"\A" if token["begin"] else r"\z"
    if token["edge"]:
        return f"\\{token['edge']}"
    if token["open"]:
        return "(?:"
    if token["plain"] or token["count"]:
        return token["plain"] or token["count"] + token["lazy"]
    return f"[{_char(_meant(token), fold)}]"


def _meant(found: re.Match[str]) -> str:
    """The character that a token stands for."""
    if found["hex"]:
        return chr(int(found["hex"], 16))
    return _CONTROLS[found["control"]] if found["control"] else found["sign"] or found["char"]


def _char(char: str, fold: bool) -> str:
    """A character, as it is written in a class."""
    if not char.isascii():
        if fold:
            raise LeftError(char)
        return char
    if not char.isalpha():
        return f"\\x{ord(char):02x}"
    return char.lower() + char.upper() + _FOLDED.get(char.lower(), "") if fold else char


def _class(items: str, fold: bool) -> str:
    """What stands in a class: characters, sets and ranges."""
    found = list(_ITEM.finditer(items))
    parts, at = [], 0
    while at < len(found):
        item, dash = found[at], at + 2 < len(found) and found[at + 1]["char"] == "-"
        if dash:
            parts.append(_range(item, found[at + 2], fold))
        elif item["set"]:
            parts.append(_set(item["set"], fold))
        else:
            parts.append(_char(_meant(item), fold))
        at += 3 if dash else 1
    return "".join(parts)


def _set(name: str, fold: bool) -> str:
    """The characters of ``\\d``, ``\\s`` or ``\\w``; without regard to case, letters of ASCII bring those that equal them."""
    return _SETS[name] + ("".join(_FOLDED.values()) if fold and name == "w" else "")


def _range(first: re.Match[str], last: re.Match[str], fold: bool) -> str:
    if first["set"] or last["set"] or (fold and not _meant(first).isdigit()):
        raise LeftError("a range whose ends are sets, or with letters of both cases")
    low, high = _meant(first), _meant(last)
    if not low.isascii() or not high.isascii() or low > high:
        raise LeftError(f"{low}-{high}")
    return f"\\x{ord(low):02x}-\\x{ord(high):02x}"
