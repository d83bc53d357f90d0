"""nginx's log_format → parts of a line.

Source: the documentation of nginx, "Alphabetical index of variables", and of its ingress controller, "Log format".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from etl.scanner.pattern_error import PatternError
from parsers.weblog.format_parts import Part, Value, header, member, merge_parts

_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+))")
_WHOLE_LINE = re.compile(r"""\s*log_format\s+[\w-]+\s+(?:escape=\w+\s+)?(?P<texts>(?:'[^']*'|"[^"]*"|\s+)+);?\s*""")
_TEXT = re.compile(r"""'([^']*)'|"([^"]*)\"""")

_VARIABLES: Mapping[str, Value] = {
    "args": Value("url.query"),
    "body_bytes_sent": Value("http.response.body.bytes", "whole"),
    "bytes_sent": Value("http.response.bytes", "whole"),
    "connection": Value("nginx.access.connection", "whole"),
    "connection_requests": Value("nginx.access.connection_requests", "whole"),
    "gzip_ratio": Value("nginx.access.gzip_ratio", "real"),
    "host": Value("destination.domain"),
    "hostname": Value("host.hostname", "word"),
    "pid": Value("process.pid", "whole"),
    "proxy_alternative_upstream_name": Value("nginx.upstream.alternative_name"),
    "proxy_upstream_name": Value("nginx.upstream.name"),
    "query_string": Value("url.query"),
    "realip_remote_addr": Value("nginx.access.peer", "word"),
    "remote_addr": Value("source", "address"),
    "remote_port": Value("source.port", "whole"),
    "remote_user": Value("user.name"),
    "req_id": Value("http.request.id", "word"),
    "request": Value("", "request"),
    "request_id": Value("http.request.id", "word"),
    "request_length": Value("http.request.bytes", "whole"),
    "request_method": Value("http.request.method", "word"),
    "request_time": Value("event.duration", "seconds"),
    "request_uri": Value("url.original"),
    "scheme": Value("url.scheme", "word"),
    "server_addr": Value("destination.ip", "word"),
    "server_name": Value("destination.domain"),
    "server_port": Value("destination.port", "whole"),
    "server_protocol": Value("http.version", "protocol"),
    "ssl_cipher": Value("tls.cipher", "word"),
    "status": Value("http.response.status_code", "whole"),
    "upstream_addr": Value("nginx.upstream.address", "text_list"),
    "upstream_bytes_received": Value("nginx.upstream.bytes_received", "whole_list"),
    "upstream_bytes_sent": Value("nginx.upstream.bytes_sent", "whole_list"),
    "upstream_connect_time": Value("nginx.upstream.connect_seconds", "real_list"),
    "upstream_header_time": Value("nginx.upstream.header_seconds", "real_list"),
    "upstream_response_length": Value("nginx.upstream.response_bytes", "whole_list"),
    "upstream_response_time": Value("nginx.upstream.response_seconds", "real_list"),
    "upstream_status": Value("nginx.upstream.status_code", "whole_list"),
    "uri": Value("url.path"),
}
_TIMES = {"time_local": "httpdate", "time_iso8601": "iso8601", "msec": "epoch"}
_PREFIXES: Mapping[str, Callable[[str], str]] = {
    "http_": header,
    "sent_http_": lambda name: member("http.response.headers", name),
    "cookie_": lambda name: member("http.request.cookies", name),
}


def is_nginx(text: str) -> bool:
    """Whether a text has variables."""
    return _VARIABLE.search(text) is not None


def nginx_parts(text: str, timestamp: str) -> list[Part]:
    """The parts of a format, which may be the whole directive. Raises PatternError."""
    directive = _WHOLE_LINE.fullmatch(text)
    if directive:
        text = "".join(one or other for one, other in _TEXT.findall(directive["texts"]))
    parts: list[Part] = []
    at = 0
    for found in _VARIABLE.finditer(text):
        parts += [text[at : found.start()], _value(found["braced"] or found["plain"], timestamp)]
        at = found.end()
    if "$" in text[at:]:
        raise PatternError("this '$' begins no variable", at + text[at:].index("$"))
    return merge_parts([*parts, text[at:]])


def _value(name: str, timestamp: str) -> Value:
    if name in _TIMES:
        return Value(timestamp, "time", (_TIMES[name],))
    if name in _VARIABLES:
        return _VARIABLES[name]
    for prefix, field in _PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            return Value(field(name.removeprefix(prefix)))
    return Value(member("nginx.access", name))
