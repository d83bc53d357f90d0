"""Apache's LogFormat → parts of a line.

Source: the manual of httpd 2.4, module mod_log_config (and mod_logio, mod_ssl).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby

from etl.scanner.pattern_error import PatternError
from parsers.timestamp.formats import check_format
from parsers.timestamp.patterns import TimePatternError
from parsers.weblog.format_parts import Part, Value, header, member, merge_parts
from parsers.weblog.strftime import time_format

_DIRECTIVE = re.compile(r"%(?:!?\d{3}(?:,\d{3})*)?[<>]?(?:\{(?P<argument>[^}]*)\})?(?P<letter>%|\^t[io]|[A-Za-z])")
_WHOLE_LINE = re.compile(r'\s*(?:LogFormat|CustomLog\s+\S+)\s+"(?P<format>(?:[^"\\]|\\.)*)"(?:\s+[\w=!-]+)*\s*')
_ESCAPES = {"n": "\n", "t": "\t"}
_TIME_PARTS = {"msec_frac": "%3f", "usec_frac": "%6f"}
_EPOCHS = {"sec": "epoch", "msec": "epoch_millis", "usec": "epoch_micros"}
_UNITS = {"": "seconds", "s": "seconds", "ms": "milliseconds", "us": "microseconds"}

MAX_BETWEEN_TIMES = 3
"""Characters between two time directives that make one time together: ``%{%F %T}t.%{msec_frac}t %{%z}t``."""

_PLAIN: dict[str, Value] = {
    "a": Value("source", "address"),
    "A": Value("destination.ip", "word"),
    "b": Value("http.response.body.bytes", "whole"),
    "B": Value("http.response.body.bytes", "whole"),
    "D": Value("event.duration", "microseconds"),
    "f": Value("file.path"),
    "h": Value("source", "address"),
    "H": Value("http.version", "protocol"),
    "I": Value("http.request.bytes", "whole"),
    "k": Value("apache.access.keepalive_requests", "whole"),
    "l": Value("apache.access.user.identity"),
    "L": Value("apache.access.log_id", "word"),
    "m": Value("http.request.method", "word"),
    "O": Value("http.response.bytes", "whole"),
    "p": Value("destination.port", "whole"),
    "P": Value("process.pid", "whole"),
    "q": Value("url.query", "query"),
    "r": Value("", "request"),
    "R": Value("apache.access.handler", "word"),
    "s": Value("http.response.status_code", "whole"),
    "S": Value("network.bytes", "whole"),
    "u": Value("user.name"),
    "U": Value("url.path"),
    "v": Value("destination.domain"),
    "V": Value("destination.domain"),
    "X": Value("apache.access.connection_status", "word"),
}
_NAMED: dict[str, Callable[[str], Value]] = {
    "a": lambda name: Value("apache.access.peer", "word"),
    "p": lambda name: Value("source.port" if name == "remote" else "destination.port", "whole"),
    "P": lambda name: Value("process.thread.id", "whole") if name == "tid" else Value(member("apache.access", name), "word"),
    "i": lambda name: Value(header(name)),
    "o": lambda name: Value(member("http.response.headers", name)),
    "C": lambda name: Value(member("http.request.cookies", name)),
    "e": lambda name: Value(member("apache.access.env", name)),
    "n": lambda name: Value(member("apache.access.notes", name)),
    "x": lambda name: Value("tls.cipher" if name == "SSL_CIPHER" else member("apache.access", name)),
    "^ti": lambda name: Value(member("http.request.trailers", name)),
    "^to": lambda name: Value(member("http.response.trailers", name)),
}


def is_apache(text: str) -> bool:
    """Whether a text has directives."""
    return any(found["letter"] != "%" for found in _DIRECTIVE.finditer(text))


def apache_parts(text: str, timestamp: str) -> list[Part]:
    """The parts of a format, which may be a line of the configuration. Raises PatternError."""
    line = _WHOLE_LINE.fullmatch(text)
    offset, text = (line.start("format"), line["format"]) if line else (0, text)
    try:
        tokens = list(_tokens(text))
        return merge_parts(_parts(tokens, timestamp))
    except PatternError as error:
        raise PatternError(error.message, error.at + offset, error.code, error.hint) from None


_Token = tuple[int, str, str | None, str]
"""Place, letter (empty: literal text), argument, literal text."""


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _DIRECTIVE.match(text, at)
        if found and found["letter"] != "%":
            yield at, found["letter"], found["argument"], ""
            at = found.end()
        elif found:
            yield at, "", None, "%"
            at = found.end()
        elif text[at] == "%":
            raise PatternError("this '%' begins no directive; a per cent sign is written %%", at)
        elif text[at] == "\\" and at + 1 < len(text):
            yield at, "", None, _ESCAPES.get(text[at + 1], text[at + 1])
            at += 2
        else:
            yield at, "", None, text[at]
            at += 1


def _parts(tokens: list[_Token], timestamp: str) -> Iterator[Part]:
    """Directives and the literals between them; times that stand together are one value."""
    parts: list[Part | _Token] = []
    for is_literal, group in groupby(tokens, key=lambda token: not token[1]):
        same = list(group)
        parts += ["".join(token[3] for token in same)] if is_literal else same
    at = 0
    while at < len(parts):
        part = parts[at]
        if not isinstance(part, tuple):
            yield part
            at += 1
        elif _is_time_part(part):
            end = _end_of_time(parts, at)
            yield _time(parts[at:end], timestamp)
            at = end
        else:
            yield from _values(part, timestamp)
            at += 1


def _is_time_part(part: Part | _Token) -> bool:
    return isinstance(part, tuple) and part[1] == "t" and part[2] is not None and _argument(part) not in _EPOCHS


def _argument(token: _Token) -> str:
    return (token[2] or "").removeprefix("begin:").removeprefix("end:")


def _end_of_time(parts: list[Part | _Token], start: int) -> int:
    """The index after the last directive that belongs to the time that begins here."""
    end = start + 1
    while end < len(parts):
        between = parts[end]
        following = end + (isinstance(between, str) and len(between) <= MAX_BETWEEN_TIMES)
        if following >= len(parts) or not _is_time_part(parts[following]):
            break
        end = following + 1
    return end


def _time(parts: list[Part | _Token], timestamp: str) -> Value:
    text, first = "", parts[0][0] if isinstance(parts[0], tuple) else 0
    for part in parts:
        if isinstance(part, tuple):
            text += _TIME_PARTS.get(_argument(part), _argument(part))
        elif isinstance(part, str):
            text += part.replace("%", "%%")
    if not text:
        raise PatternError("this time has no format; write %{%F %T}t, or %t", first)
    try:
        format_ = time_format(text)
        check_format(format_)
    except (PatternError, TimePatternError) as error:
        raise PatternError(f"in the time {text!r}: {error}", first, hint=error.hint) from None
    return Value(timestamp, "time", (format_,))


def _values(token: _Token, timestamp: str) -> Iterator[Part]:
    _, letter, argument, _ = token
    if letter != "t":
        yield _value(token)
    elif argument is None:
        yield from ("[", Value(timestamp, "time", ("httpdate",)), "]")
    else:
        yield Value(timestamp, "time", (_EPOCHS[_argument(token)],))


def _value(token: _Token) -> Value:
    at, letter, argument, _ = token
    if letter == "T":
        if (argument or "") not in _UNITS:
            raise PatternError(f"%{{{argument}}}T: units are s, ms and us", at)
        return Value("event.duration", _UNITS[argument or ""])  # type: ignore[arg-type]
    if argument is None or (letter in _PLAIN and letter not in _NAMED):
        found = _PLAIN.get(letter)
    else:
        found = _NAMED[letter](argument) if letter in _NAMED else None
    if found is None:
        known = " ".join(f"%{known}" for known in sorted({*_PLAIN, "t", "T"}))
        raise PatternError(
            f"{'%' + letter!r} is not a directive here", at, hint=f"directives are {known} and %{{name}} of i o C e n x"
        )
    return found
