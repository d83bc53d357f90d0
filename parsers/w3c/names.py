"""The fields of W3C extended logs: their names in ECS, how they are written, and which fields well-known logs have.

Source: W3C working draft WD-logfile-960323; Microsoft's "W3C Extended Log File Format" (IIS); Amazon's "Standard log file
fields" (CloudFront).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from parsers.weblog.format_parts import Value, header, member

_IIS = "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent)"
_IIS_STATUS = "sc-status sc-substatus sc-win32-status time-taken"

_HTTPERR = "date time c-ip c-port s-ip s-port cs-version cs-method cs-uri", "sc-status s-siteid s-reason s-queuename"

PRESETS: Mapping[str, str] = {
    "iis": f"{_IIS} cs(Referer) {_IIS_STATUS}",
    "iis7": f"{_IIS} {_IIS_STATUS}",
    "iis_error": f"{_HTTPERR[0]} streamid {_HTTPERR[1]}",
    "iis_error_2012": f"{_HTTPERR[0]} {_HTTPERR[1]}",
    "iis_all": (
        "date time s-sitename s-computername s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs-version"
        " cs(User-Agent) cs(Cookie) cs(Referer) cs-host sc-status sc-substatus sc-win32-status sc-bytes cs-bytes time-taken"
    ),
    "cloudfront": (
        "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent)"
        " cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken"
        " x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status"
        " fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len"
        " sc-range-start sc-range-end"
    ),
}
"""Lists of fields by name: the default of IIS 8 and later, and of IIS 7; HTTP.sys's error log, and that of Windows before
2016; all that IIS offers; CloudFront."""

_KNOWN: Mapping[str, Value] = {
    "c-ip": Value("source", "address"),
    "c-port": Value("source.port", "whole"),
    "cs(cookie)": Value("iis.access.cookie"),
    "cs(host)": Value("destination.domain"),
    "cs-bytes": Value("http.request.bytes", "whole"),
    "cs-host": Value("destination.domain"),
    "cs-method": Value("http.request.method"),
    "cs-protocol": Value("url.scheme"),
    "cs-protocol-version": Value("http.version", "protocol"),
    "cs-uri": Value("url.original"),
    "cs-uri-query": Value("url.query"),
    "cs-uri-stem": Value("url.path"),
    "cs-username": Value("user.name"),
    "cs-version": Value("http.version", "protocol"),
    "s-computername": Value("iis.access.server_name"),
    "s-ip": Value("destination", "address"),
    "s-port": Value("destination.port", "whole"),
    "s-queuename": Value("iis.error.queue_name"),
    "s-reason": Value("iis.error.reason_phrase"),
    "s-siteid": Value("iis.error.site_id"),
    "s-sitename": Value("iis.access.site_name"),
    "sc-bytes": Value("http.response.bytes", "whole"),
    "sc-content-len": Value("http.response.body.bytes", "whole"),
    "sc-content-type": Value("http.response.mime_type"),
    "sc-status": Value("http.response.status_code", "whole"),
    "sc-substatus": Value("iis.access.sub_status", "whole"),
    "sc-win32-status": Value("iis.access.win32_status", "whole"),
    "ssl-cipher": Value("tls.cipher"),
    "streamid": Value("iis.error.stream_id"),
    "time-taken": Value("event.duration", "milliseconds"),
    "time-to-first-byte": Value("w3c.time_to_first_byte", "real"),
}
_HEADER = re.compile(r"(?P<way>cs|sc|rs|sr)\((?P<name>[^()]+)\)")
_SECONDS = {"time-taken": Value("event.duration", "seconds")}
"""Where a log is CloudFront's."""


def field_list(text: str) -> list[str]:
    """A preset's name, or what stands in a ``#Fields:`` line, with or without that word."""
    return PRESETS.get(text.strip(), text.removeprefix("\ufeff").strip().removeprefix("#Fields:")).split()


def values(names: list[str]) -> list[Value]:
    """The value of each field; date and time keep their names."""
    special = _SECONDS if "x-edge-location" in names else {}
    return [special.get(name) or _value(name) for name in names]


def has_plus(name: str) -> bool:
    """Whether IIS writes ``+`` for blanks in a field: in headers, of which one is a URL."""
    found = _HEADER.fullmatch(name)
    return found is not None and found["name"].lower() != "referer"


def _value(name: str) -> Value:
    if name.lower() in _KNOWN:
        return _KNOWN[name.lower()]
    found = _HEADER.fullmatch(name)
    if found is None:
        return Value(member("w3c", name))
    way = header if found["way"] == "cs" else partial(member, "http.response.headers")
    return Value(way(found["name"]))
