"""Formats with names, and the syntax of a format string: Apache, nginx or HAProxy.

Source: the default configurations of Apache httpd 2.4, nginx, ingress-nginx and HAProxy, and the formats of their error logs
(httpd's ErrorLogFormat; nginx's ngx_log.c as described in "Debugging log").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from etl.api import nearest
from etl.scanner.pattern_error import PatternError
from parsers.weblog.apache import apache_parts, is_apache
from parsers.weblog.format_parts import Kind
from parsers.weblog.haproxy import haproxy_parts, is_haproxy
from parsers.weblog.ip_expression import IP, ZONE
from parsers.weblog.line_layout import BRACKETED, CAPTURE, QUOTED, LineLayout, address, compile_layout, request
from parsers.weblog.nginx import is_nginx, nginx_parts

_COMMON = '%h %l %u %t "%r" %>s %b'
_AGENT = ' "%{Referer}i" "%{User-Agent}i"'
_NGINX = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
_INGRESS = (
    " $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name]"
    " $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id"
)
_SQUID_CODES = "%ac/%fc/%bc/%sc/%rc %sq/%bq"

ACCESS: Mapping[str, Sequence[str]] = {
    "common": (_COMMON,),
    "combined": (_COMMON + _AGENT,),
    "vhost_common": ("%v " + _COMMON,),
    "vhost_combined": ('%v:%p %h %l %u %t "%r" %>s %O' + _AGENT,),
    "nginx_combined": (_NGINX, _NGINX + ' "$gzip_ratio"'),
    "nginx_main": (_NGINX + ' "$http_x_forwarded_for"',),
    "nginx_ingress": (_NGINX + _INGRESS,),
    "haproxy_http": (f"%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc {_SQUID_CODES} %hr %hs %{{+Q}}r",),
    "haproxy_tcp": (f"%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts {_SQUID_CODES}",),
}
"""Access logs by name, each in one or more forms."""

_APACHE_TIMES = ("apache_error", "httpdate", "iso8601")
_NGINX_TIMES = ("yyyy/MM/dd HH:mm:ss",)


def _apache_error(timestamp: str, formats: Sequence[str]) -> LineLayout:
    """httpd 2.4 with module, process and thread; 2.2 without. A text before the client is the error of a system call."""
    host = rf"(?:{address('source')}|(?<source.address>{BRACKETED}+?))"
    ip = rf"(?<source.address>(?<source.ip>{IP}){ZONE})"
    port = r"(?<source.port>\d+)"
    client = rf"\[(?:(?:client|remote) (?:-(?::-)?|{ip}:{port}|{ip}|{host}:{port}|{host})|-)\]"
    pattern = (
        rf"\s*(?:\[(?:-|(?<{timestamp}>{BRACKETED}+))\]|-)"
        r"\s+(?:\[(?:(?<apache.error.module>[^\s:\]]*):)?(?<log.level>[^\s:\]]+)\]|-)"
        r"(?:\s+(?:\[(?:pid (?:-|(?<process.pid>\d+))(?::tid (?:-|(?<process.thread.id>\d+)))?|-)\]|-))?"
        rf"\s+(?:(?:(?<error.message>[^\[\]]*?):? )?{client}\s+|-\s+)?(?<message>.*)"
    )
    numbers = ("source.port", "process.pid", "process.thread.id")
    return LineLayout(pattern, _numbers(numbers, timestamp), {timestamp: formats or _APACHE_TIMES})


def _nginx_error(timestamp: str, formats: Sequence[str]) -> LineLayout:
    """A message, then what nginx writes about the request; each part may be missing."""
    numbers = ("process.pid", "process.thread.id", "nginx.error.connection_id")
    made = LineLayout("", _numbers(numbers, timestamp), {timestamp: formats or _NGINX_TIMES})
    made.kinds["nginx.error.excess"] = "real"
    optional = "".join(_optional(name, expression, made) for name, expression in _NGINX_CONTEXT.items())
    made.pattern = (
        rf"\s*(?<{timestamp}>\d[^\[]*?) \[(?<log.level>\w+)\] (?<process.pid>\d+)#(?<process.thread.id>\d+): "
        rf"(?:\*(?<nginx.error.connection_id>\d+) )?(?<message>.*?){optional}\s*"
    )
    return made


def _numbers(names: Sequence[str], timestamp: str) -> dict[str, Kind]:
    """The kinds of fields of which one is a time."""
    kinds: dict[str, Kind] = dict.fromkeys(names, "whole")
    return kinds | {timestamp: "time"}


def _optional(name: str, expression: str, made: LineLayout) -> str:
    """One part; the field that may be empty in it is marked by the name before it."""
    if "{mark}" not in expression:
        return f"(?:, {name}{expression})?"
    mark = f"mark.{name}"
    made.marked[CAPTURE.findall(expression)[-1]] = mark
    return f"(?:, (?<{mark}>{name}){expression.removeprefix('{mark}')})?"


_NGINX_CONTEXT = {
    "excess": r": (?<nginx.error.excess>\d+(?:\.\d+)?),? by zone \"(?<nginx.error.zone>[^\"]*)\"",
    "client": rf": (?:{address('source')}|)",
    "server": r"{mark}: (?<nginx.error.server>[^,]*)",
    "request": rf"{{mark}}: \"(?:{request(QUOTED)})\"",
    "subrequest": rf"{{mark}}: \"(?<nginx.error.subrequest>{QUOTED}*)\"",
    "upstream": rf"{{mark}}: \"(?<nginx.upstream.address>{QUOTED}*)\"",
    "host": rf"{{mark}}: \"(?<http.request.headers.host>{QUOTED}*)\"",
    "referrer": rf"{{mark}}: \"(?<http.request.referrer>{QUOTED}*)\"",
}
"""What may follow the message, in nginx's order."""

ERRORS: Mapping[str, Callable[[str, Sequence[str]], LineLayout]] = {"apache_error": _apache_error, "nginx_error": _nginx_error}
"""Error logs by name."""

NAMES = (*ACCESS, *ERRORS)


def line_layouts(format_: str, timestamp: str, time_formats: Sequence[str]) -> Iterator[LineLayout]:
    """The forms that lines of a format have. Raises PatternError."""
    if format_ in ERRORS:
        yield ERRORS[format_](timestamp, time_formats)
        return
    for text in ACCESS.get(format_, (format_,)):
        if is_haproxy(text):
            yield compile_layout(haproxy_parts(text, timestamp), time_formats)
        elif is_apache(text):
            yield compile_layout(apache_parts(text, timestamp), time_formats)
        elif is_nginx(text):
            yield compile_layout(nginx_parts(text, timestamp), time_formats)
        else:
            hint = nearest(text, NAMES) or f"formats are {', '.join(NAMES)}, or a LogFormat, log_format or log-format"
            raise PatternError(f"there is no format {text!r}", 0, "unknown-format", hint)
