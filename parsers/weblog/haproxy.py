"""HAProxy's log-format → parts of a line.

Source: HAProxy's configuration manual, chapter "Custom log format" (aliases, flags, sample expressions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from etl.scanner.pattern_error import PatternError
from parsers.weblog.format_parts import Part, Value, member, merge_parts

_ALIAS = re.compile(r"%(?:\{(?P<flags>[+\-QXE,]*)\})?(?:(?P<name>[A-Za-z]+)|\[(?P<sample>[^\]]*)\])")
_WHOLE_LINE = re.compile(r"\s*log-format(?:-sd)?\s+(?P<quote>[\"']?)(?P<format>.*)(?P=quote)\s*")
_SURE = re.compile(r"%(?:\{[+\-QXE,]*\})?(?:ci|cp|ft|TR|Tw|Tc|Ta|Tt|ST|tsc|HM|HU|HV|HP)(?![A-Za-z])|%\[|%\{[+\-][QXE]")
"""Aliases, flags and expressions that Apache's formats do not have."""

_ACCEPTED = ("dd/MMM/yyyy:HH:mm:ss[.SSS]",)
_TIMES = {"t": _ACCEPTED, "tr": _ACCEPTED, "T": ("httpdate",), "trg": ("httpdate",), "Tl": ("httpdate",), "Ts": ("epoch",)}

_ALIASES: Mapping[str, Value] = {
    "ac": Value("haproxy.connections.active", "signed"),
    "b": Value("haproxy.backend_name", "word"),
    "B": Value("http.response.bytes", "signed"),
    "bc": Value("haproxy.connections.backend", "signed"),
    "bi": Value("haproxy.backend_source.address", "word"),
    "bp": Value("haproxy.backend_source.port", "whole"),
    "bq": Value("haproxy.backend_queue", "signed"),
    "CC": Value("haproxy.http.request.captured_cookie", "word"),
    "ci": Value("source", "address_before_port"),
    "cp": Value("source.port", "whole"),
    "CS": Value("haproxy.http.response.captured_cookie", "word"),
    "f": Value("haproxy.frontend_name", "word"),
    "fc": Value("haproxy.connections.frontend", "signed"),
    "fi": Value("haproxy.frontend.address", "word"),
    "fp": Value("haproxy.frontend.port", "whole"),
    "ft": Value("haproxy.frontend_name", "word"),
    "H": Value("host.hostname", "word"),
    "HM": Value("http.request.method", "word"),
    "HP": Value("url.path"),
    "HPO": Value("url.path"),
    "HQ": Value("url.query", "query"),
    "hr": Value("haproxy.http.request.captured_headers", "braces"),
    "hs": Value("haproxy.http.response.captured_headers", "braces"),
    "HU": Value("url.original"),
    "HV": Value("http.version", "protocol"),
    "ID": Value("http.request.id", "word"),
    "pid": Value("process.pid", "whole"),
    "r": Value("", "request"),
    "rc": Value("haproxy.connections.retries", "signed"),
    "rt": Value("haproxy.request_counter", "whole"),
    "s": Value("haproxy.server_name", "word"),
    "sc": Value("haproxy.connections.server", "signed"),
    "si": Value("destination.ip", "word"),
    "sp": Value("destination.port", "whole"),
    "sq": Value("haproxy.server_queue", "signed"),
    "sslc": Value("tls.cipher", "word"),
    "sslv": Value("haproxy.ssl_version", "word"),
    "ST": Value("http.response.status_code", "signed"),
    "Ta": Value("event.duration", "milliseconds"),
    "Tc": Value("haproxy.connection_wait_time_ms", "signed"),
    "TR": Value("haproxy.http.request.time_wait_ms", "signed"),
    "Tr": Value("haproxy.http.request.time_wait_without_data_ms", "signed"),
    "ts": Value("haproxy.termination_state", "word"),
    "tsc": Value("haproxy.termination_state", "word"),
    "Tt": Value("event.duration", "milliseconds"),
    "Tw": Value("haproxy.total_waiting_time_ms", "signed"),
    "U": Value("http.request.bytes", "signed"),
}
_NUMBERS = frozenset({"Td", "Th", "Ti", "Tq", "Tu", "lc", "ms", "lr"})
"""Aliases of numbers without a field of their own."""


def is_haproxy(text: str) -> bool:
    """Whether a text has aliases that only HAProxy has."""
    return _SURE.search(text) is not None


def haproxy_parts(text: str, timestamp: str) -> list[Part]:
    """The parts of a format, which may be the whole directive. Raises PatternError."""
    line = _WHOLE_LINE.fullmatch(text)
    offset, text = (line.start("format"), line["format"]) if line else (0, text)
    return list(_without_blanks(merge_parts(_parts(text, timestamp, offset))))


def _without_blanks(parts: Sequence[Part]) -> Iterator[Part]:
    """Captured headers include the blank before them: HAProxy writes none where it has captured nothing."""
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        if isinstance(part, str) and isinstance(following, Value) and following.kind == "braces":
            part = part.removesuffix(" ")
        if part != "":
            yield part


def _parts(text: str, timestamp: str, offset: int) -> Iterator[Part]:
    """Aliases, in quotes where a flag or ``%o`` demands it, and the texts between them."""
    at, quoted = 0, False
    while at < len(text):
        found = _ALIAS.match(text, at)
        if found is None:
            char, at = _literal(text, at, offset)
            yield char
            continue
        at = found.end()
        flags = found["flags"] or ""
        mine = "+Q" in flags or (quoted and "-Q" not in flags)
        if found["name"] == "o":  # it writes nothing, the blank after it neither
            quoted = mine
            at += len(text[at:]) - len(re.sub(r"^\\? ", "", text[at:]))
            continue
        value = _value(found, timestamp)
        yield from ('"', value, '"') if mine and value.kind not in ("signed", "whole", "milliseconds") else (value,)


def _literal(text: str, at: int, offset: int) -> tuple[str, int]:
    """A character of the text between aliases, and where the next one begins."""
    if text.startswith("%%", at) or (text[at] == "\\" and at + 1 < len(text)):
        return text[at + 1], at + 2
    if text[at] == "%":
        raise PatternError("this '%' begins no alias; a per cent sign is written %%", at + offset)
    return text[at], at + 1


def _value(found: re.Match[str], timestamp: str) -> Value:
    name = found["name"]
    if name is None:
        return Value(member("haproxy.sample", found["sample"]).rstrip("_"))
    if name in _TIMES:
        return Value(timestamp, "time", _TIMES[name])
    if name in _ALIASES:
        return _ALIASES[name]
    return Value(member("haproxy", name), "signed" if name in _NUMBERS else "text")
