"""Names of grok patterns that people write and that there are not, and what they most likely mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

_MEANT: Mapping[str, str] = {
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
"""In capital letters."""


def meant(name: str, known: Iterable[str]) -> str | None:
    """A hint with the pattern that an unknown name means, if one is alike."""
    names = set(known)
    upper = name.upper()
    if upper in names:
        return f"did you mean {upper!r}?"
    if _MEANT.get(upper) not in names:
        near = get_close_matches(upper, [*sorted(names), *_MEANT], n=5, cutoff=0.7)
        near.sort(key=lambda other: other[:2] != upper[:2])  # whoever misspells a word seldom does so at its beginning
        upper = near[0] if near else ""
    found = upper if upper in names else _MEANT.get(upper)
    return f"did you mean {found!r}?" if found in names else None
