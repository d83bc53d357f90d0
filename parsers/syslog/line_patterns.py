"""The forms of syslog lines as patterns, in the order in which they are tried.

Sources: RFC 5424 section 6 (ABNF), RFC 3164 section 4, and for what is sent in the wild the message formats of Cisco IOS,
NX-OS and ASA, AIX, Linksys, rsyslog, syslog-ng and Heroku. A nil value captures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal, TypeAlias

from etl.scanner.tree import Node
from parsers.grok.compiler import compile_pattern

Format: TypeAlias = Literal["auto", "rfc5424", "rfc3164"]
Tag: TypeAlias = Literal["colon", "word"]

CAPTURES = ("priority", "version", "time", "zone", "host", "app", "proc", "msgid", "elements", "sequence", "message")

# ── What the forms are made of ────────────────────────────────────────────────────────────────────

_FRAME = r"(?:\d{1,10} )?"
"""The byte count of RFC 6587, where a receiver left it before the message."""

_PRIORITY = r"<(?<priority>0?\d{1,2}|1[0-8]\d|19[01])>"
_STRICT_PRIORITY = r"<(?<priority>0|[1-9]\d?|1[0-8]\d|19[01])>"
_VERSION = r"(?<version>[1-9]\d{0,2})"

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_ANY_CASE_MONTH = f"(?i:{_MONTH[3:]}"
_YEAR = r"(?:19|20)\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_OFFSET = r"[+-]\d\d:?\d\d"
_NAMED_ZONE = "(?:UTC|GMT|[ECMP][SD]T)"
_BSD_TIME = rf"(?:{_YEAR} )?{_ANY_CASE_MONTH} +\d{{1,2}} +(?:{_YEAR} +)?{_CLOCK}(?: {_YEAR})?"
_ISO_ZONE = rf"(?:[Zz]|{_OFFSET})"
_ISO_TIME = rf"\d{{4}}-\d\d-\d\d[Tt ]{_CLOCK}(?: ?{_ISO_ZONE})?"
_TIME = rf"(?:(?<time>{_BSD_TIME})(?: (?<zone>{_NAMED_ZONE}|{_OFFSET}))?|(?<time>{_ISO_TIME}))"
_STRICT_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_MARKED_TIME = rf"[*.]?{_TIME}[.,]?"
"""Cisco puts a mark before times of a clock that is not set."""

_IPV6 = r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.\d{1,3}){0,3}"
_HOST = r"(?:-|(?<host>[A-Za-z0-9_][^\s\[\]{}\"'=<>,;|%:]*(?::\d{1,5})?|\[[^\s\[\]]+\]))"
_ORIGIN = r"(?<host>[A-Za-z0-9][A-Za-z0-9_.\-]*|\d[0-9.]+)"
_NAME = r"[^\s:\[\]{}\"'=<>,;|]+"
_TAG = rf"{_NAME}(?:\([^()\s:\[\]]*\))?"
"""A program's name, perhaps with a text in brackets: ``polkitd(authority=local)``."""

_PROCESS = r"\[(?<proc>[^\]\s]*)\]"

_FOREIGN = r"(?<message>(?:CEF|LEEF):\d.*)"
"""Formats that name themselves where the tag would stand."""

_ELEMENTS = r"(?<elements>(?:\[(?:[^\"\]]|\"(?:[^\"\\]|\\.)*\")*\])+)"
_BOM = "\ufeff?"


def _content(tag: Tag) -> str:
    """A tag and the message after it, or the message alone."""
    marked = rf"(?<app>{_TAG})(?:{_PROCESS}:? ?|: ?)(?<message>.*)"
    spaced = rf"|(?<app>{_NAME}(?: {_NAME}){{1,3}})\[(?<proc>\d+)\]: (?<message>.*)"
    word = rf"|(?<app>[^\s:\[]+)(?:{_PROCESS})?:?(?: (?<message>.*)|\z)"
    return rf"(?:{_FOREIGN}|{marked}{word if tag == 'word' else spaced}|(?<message>.*))"


def _with_host(tag: Tag) -> str:
    """What follows the time: a host, if the first word is none of the tag's."""
    surely_tag = rf"(?<app>{_TAG})(?:{_PROCESS}:? ?|:(?: |\z))(?<message>.*)"
    repeated = r"(?<message>last message repeated .*)"
    ways = (
        repeated,
        rf"Message forwarded from (?<host>[^\s:]+): *(?:{repeated}|{_content(tag)})",
        rf"(?<host>{_IPV6}) +{_content(tag)}",
        _FOREIGN,
        surely_tag,
        rf"{_HOST}(?: :)? +{_content(tag)}",
        _content(tag),
    )
    return f"(?:{'|'.join(ways)})"


# ── The forms ─────────────────────────────────────────────────────────────────────────────────────


def _rfc5424(strict: bool) -> str:
    name = "[!-~]+" if strict else r"\S+"
    names = "".join(rf" (?:-|(?<{field}>{name}))" for field in ("host", "app", "proc", "msgid"))
    if strict:
        return rf"{_STRICT_PRIORITY}{_VERSION} (?:-|(?<time>{_STRICT_TIME})){names} (?:-|{_ELEMENTS})(?: (?<message>.*))?"
    end = rf"(?: (?:-|{_ELEMENTS})(?: {_BOM}(?<message>.*))?| {_BOM}(?<message>[^\[].*)| ?)"
    time = rf"(?<time>\d{{4}}-\d\d-\d\d[Tt]{_CLOCK}{_ISO_ZONE}?)"
    return rf"{_FRAME}{_PRIORITY}{_VERSION} (?:-|{time}){names}{end}"


def _broken_rfc5424() -> str:
    return rf"{_FRAME}{_PRIORITY}{_VERSION} (?:-(?: |\z)|\d{{4}}-\d\d-\d\d).*"


def _strict_rfc3164() -> str:
    time = rf"(?<time>{_MONTH} (?: [1-9]|[12]\d|3[01]) \d\d:\d\d:\d\d)"
    tag = rf"(?<app>[!-9;-Z\\^-~]{{1,32}})(?:{_PROCESS})?: ?(?<message>.*)"
    return rf"{_STRICT_PRIORITY}{time} (?<host>[!-~]+) (?:{tag}|(?<message>.*))"


def _from_time(tag: Tag, hosts: bool) -> str:
    """A time and what follows it."""
    content = _content(tag)
    rest = _with_host(tag) if hosts else content
    foreign_zone = rf" [A-Z]{{2,5}}: +(?=%){content}"
    return rf"{_MARKED_TIME}(?:{foreign_zone}|:? +{rest}|:?)"


def _pattern_with_time(tag: Tag, hosts: bool) -> str:
    """A time after an optional priority."""
    return rf"(?:{_FRAME}{_PRIORITY})? *{_from_time(tag, hosts)}"


def _cisco(tag: Tag, hosts: bool) -> str:
    """A sequence number, or none but its colon, before the time, or the sender's name; or both."""
    number = r"(?<sequence>\d{1,18})?: *"
    numbered = rf"{number}{_ORIGIN}: +{_MARKED_TIME}(?: [A-Z]{{2,5}})?:? *{_content(tag)}"
    named = rf"{_ORIGIN}: +{_MARKED_TIME}(?: [A-Z]{{2,5}})?: +(?=%){_content(tag)}"
    return rf"(?:{_FRAME}{_PRIORITY})? *(?:{number}{_from_time(tag, hosts)}|{numbered}|{named})"


def _pattern_without_time(tag: Tag) -> str:
    """A priority, and instead of a time perhaps how long a Cisco device has been up."""
    up = r"(?:(?:\d+:\d\d:\d\d|\d+[ywd]\d+[wdh])(?:\.\d+)?: +(?=%))?"
    return rf"{_FRAME}{_PRIORITY} *(?:(?<sequence>\d{{1,18}})?: +)?{up}{_content(tag)}"


@cache
def forms(format_: Format, strict: bool, tag: Tag, hosts: bool, headless: bool) -> tuple[tuple[Node, ...], int | None]:
    """The patterns, and the number of the one that finds broken RFC 5424, which is not to be read as RFC 3164.

    ``headless``: a line with neither a priority nor a time is a message.
    """
    texts: list[str] = []
    if format_ != "rfc3164":
        texts.append(_rfc5424(strict))
    broken = len(texts) if format_ == "auto" else None
    if format_ == "auto":
        texts.append(_broken_rfc5424())
    if format_ != "rfc5424":
        texts += (
            [_strict_rfc3164()] if strict else [_pattern_with_time(tag, hosts), _cisco(tag, hosts), _pattern_without_time(tag)]
        )
    if headless:
        texts.append(rf" *{_content(tag)}")
    return tuple(_trees(texts)), broken


def _trees(texts: Sequence[str]) -> list[Node]:
    trees = [compile_pattern(text, None, frozenset(), True) for text in texts]
    for tree in trees:
        if isinstance(tree, Exception):
            raise tree
    return [tree for tree in trees if not isinstance(tree, Exception)]
