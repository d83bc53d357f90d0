"""References to patterns: findings about misspelt ones, and the library's name for an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from etl.api import Finding
from etl.scanner.syntax import REFERENCE

_BEGINNING = re.compile(r"(?<!\\)%\{\w[^{}]*\}?")
_HINT = "write %{NAME}, %{NAME:field} or %{NAME:field:int}; a field has letters, digits, _, -, @ and dots"

_LIBRARY_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("IPADDR", "IPADDRESS", "CLIENTIP", "SRCIP", "DSTIP", "IP4", "IPADRESS"), "IP"),
    **dict.fromkeys(("INTEGER", "DIGIT", "DIGITS", "LONG", "BIGINT", "STATUS", "HTTPSTATUS", "STATUSCODE", "BYTES"), "INT"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL", "NUMERIC"), "NUMBER"),
    **dict.fromkeys(("PID", "PORT"), "POSINT"),
    **dict.fromkeys(("STRING", "TEXT", "WORDS", "ANY", "FIELD", "VALUE"), "DATA"),
    **dict.fromkeys(("JSON", "REST", "ANYTHING", "MESSAGE", "BODY", "REMAINDER", "MULTILINE", "GREEDY"), "GREEDYDATA"),
    **dict.fromkeys(("TIMESTAMP", "DATETIME", "DATE_TIME", "ISO8601", "RFC3339", "DATE_ISO8601"), "TIMESTAMP_ISO8601"),
    **dict.fromkeys(("LEVEL", "SEVERITY", "LOG_LEVEL", "PRIORITY"), "LOGLEVEL"),
    **dict.fromkeys(("HOST", "DOMAIN", "FQDN", "SERVER"), "IPORHOST"),
    **dict.fromkeys(("EMAIL", "MAIL"), "EMAILADDRESS"),
    **dict.fromkeys(("URL", "LINK"), "URI"),
    **dict.fromkeys(("METHOD", "HTTPMETHOD", "VERB", "KEY"), "WORD"),
    **dict.fromkeys(("USERAGENT", "USER_AGENT", "AGENT", "QUOTED", "QUOTE"), "QUOTEDSTRING"),
    **dict.fromkeys(("FILE", "FILEPATH", "FILENAME", "DIR"), "PATH"),
    **dict.fromkeys(("HEX", "HEXADECIMAL"), "BASE16NUM"),
    **dict.fromkeys(("MACADDRESS", "MACADDR"), "MAC"),
    **dict.fromkeys(("BLANK", "WHITESPACE", "TAB"), "SPACE"),
    **dict.fromkeys(("APACHE", "ACCESSLOG", "NGINX", "COMBINED"), "COMBINEDAPACHELOG"),
    "SYSLOG": "SYSLOGLINE",
}
"""Names that people write, in capital letters → the library's name."""


def misspelt_references(pattern: str, path: tuple[str | int, ...]) -> Iterator[Finding]:
    """Warnings about texts that look like ``%{NAME:field:type}`` and are not a reference."""
    for found in _BEGINNING.finditer(pattern):
        text, at = found.group(), found.start()
        reference = REFERENCE.match(pattern, at)
        if not text.endswith("}"):
            message = f"{text!r} has no closing brace, and is matched letter by letter"
        elif reference is None:
            message = f"{text!r} is not a reference to a pattern, and is matched letter by letter"
        elif ignored := _ignored_text(reference):
            message = f"of {text!r} the part {ignored!r} is ignored"
        else:
            continue
        yield Finding("bad-reference", message, path, _HINT, at=at, severity="warning")


def unknown_references(pattern: str, path: tuple[str | int, ...], known: frozenset[str], reported: int) -> Iterator[Finding]:
    """References to patterns that do not exist, except the one at ``reported``."""
    for found in REFERENCE.finditer(pattern):
        if found["name"] not in known and found.start() != reported:
            message, hint = f"there is no grok pattern {found['name']!r}", name_hint(found["name"], known)
            yield Finding("unknown-pattern", message, path, hint, at=found.start())


def _ignored_text(reference: re.Match[str]) -> str:
    """What stands between the last part of a reference and its brace."""
    end = max(reference.end(part) for part in ("name", "field", "cast"))
    return reference.string[end : reference.end() - 1]


def name_hint(name: str, known: Iterable[str]) -> str | None:
    """A hint with the pattern that an unknown name most likely means, if there is one."""
    names = set(known)
    upper = name.upper()
    if upper in names:
        return f"did you mean {upper!r}?"
    if _LIBRARY_NAMES.get(upper) not in names:
        near = get_close_matches(upper, [*sorted(names), *_LIBRARY_NAMES], n=5, cutoff=0.7)
        near.sort(key=lambda other: other[:2] != upper[:2])  # misspellings are rare at the beginning of a word
        upper = near[0] if near else ""
    found = upper if upper in names else _LIBRARY_NAMES.get(upper)
    return f"did you mean {found!r}?" if found in names else None
