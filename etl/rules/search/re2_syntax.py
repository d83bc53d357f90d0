"""RE2's regular expressions, rewritten for the scanner's automata if both certainly match the same.

Source: the page "RE2 regular expression syntax" of its manual. The dot excludes only ``\\n``, ``$`` is the end of the text,
``\\s`` has no vertical tab, and ``(?i)`` also folds letters beyond ASCII: the rewritten pattern says all this explicitly. RE2
itself runs all other patterns.
"""

from __future__ import annotations

import re

from etl.expressions.patterns import java_regex
from etl.expressions.patterns.java_characters import NoFormError
from etl.expressions.patterns.searches import search_tree
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
"""Letters of ASCII that equal a letter beyond ASCII if case does not count."""


class NotRewritableError(ValueError):
    """RE2 has to run the pattern."""


def compile_automaton(pattern: str) -> Node | None:
    """The tree that the scanner runs, or None if RE2 has to run the pattern."""
    try:
        tree = search_tree(java_regex.parse(rewrite(pattern)).tree, None)
    except (NotRewritableError, NoFormError, PatternError, RecursionError):
        return None
    return tree if choose_engine(tree).engine == "scanner" else None


def rewrite(pattern: str) -> str:
    """The pattern in a notation that means the same in RE2 and Java. Raises NotRewritableError."""
    flags = _FLAGS.match(pattern)
    on = flags["flags"] if flags else ""
    at, parts = flags.end() if flags else 0, []
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise NotRewritableError(pattern)
        parts.append(_rewrite_token(token, "i" in on, "s" in on))
        at = token.end()
    return "".join(parts)


def _rewrite_token(token: re.Match[str], fold: bool, dot_all: bool) -> str:
    if token["items"] is not None:
        return f"[{token['negated']}{_rewrite_class(token['items'], fold)}]"
    if token["set"]:
        return f"[{'^' if token['set'].isupper() else ''}{_expand_set(token['set'].lower(), fold)}]"
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
    return f"[{_class_character(_character(token), fold)}]"


def _character(found: re.Match[str]) -> str:
    """The character of a token."""
    if found["hex"]:
        return chr(int(found["hex"], 16))
    return _CONTROLS[found["control"]] if found["control"] else found["sign"] or found["char"]


def _class_character(char: str, fold: bool) -> str:
    """A character in the notation of a class."""
    if not char.isascii():
        if fold:
            raise NotRewritableError(char)
        return char
    if not char.isalpha():
        return f"\\x{ord(char):02x}"
    return char.lower() + char.upper() + _FOLDED.get(char.lower(), "") if fold else char


def _rewrite_class(items: str, fold: bool) -> str:
    """The content of a class: characters, sets and ranges."""
    found = list(_ITEM.finditer(items))
    parts, at = [], 0
    while at < len(found):
        item, dash = found[at], at + 2 < len(found) and found[at + 1]["char"] == "-"
        if dash:
            parts.append(_rewrite_range(item, found[at + 2], fold))
        elif item["set"]:
            parts.append(_expand_set(item["set"], fold))
        else:
            parts.append(_class_character(_character(item), fold))
        at += 3 if dash else 1
    return "".join(parts)


def _expand_set(name: str, fold: bool) -> str:
    """The characters of ``\\d``, ``\\s`` or ``\\w``; with folding also the letters that equal those of ASCII."""
    return _SETS[name] + ("".join(_FOLDED.values()) if fold and name == "w" else "")


def _rewrite_range(first: re.Match[str], last: re.Match[str], fold: bool) -> str:
    if first["set"] or last["set"] or (fold and not _character(first).isdigit()):
        raise NotRewritableError("a range whose ends are sets, or with letters of both cases")
    low, high = _character(first), _character(last)
    if not low.isascii() or not high.isascii() or low > high:
        raise NotRewritableError(f"{low}-{high}")
    return f"\\x{ord(low):02x}-\\x{ord(high):02x}"
