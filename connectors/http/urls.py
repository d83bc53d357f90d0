"""URLs of servers: parsing and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from connectors.shared.tls import ClientTls
from etl.api import Finding

Url = Annotated[str, Field(pattern=r"^https?://[^\s/?#]+([/?][^\s#]*)?$")]
"""URL of a server: ``https://host:port/path``."""

PORTS = {"http": 80, "https": 443}


class ServerUrl(NamedTuple):
    """The parts of a URL."""

    scheme: str
    host: str
    port: int
    path: str
    """Path with its query, without a slash at the end: the base of other paths."""
    target: str = "/"
    """Path and query as written, requested if no other path is appended."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_url(url: str) -> ServerUrl:
    """Parse a URL that matches `Url`. Raises ValueError for an impossible port."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    return ServerUrl(parts.scheme, host, port, parts.path.rstrip("/") + query, (parts.path or "/") + query)


def check_urls(urls: Sequence[str], tls: ClientTls | None, *path: str | int) -> Iterator[Finding]:
    """Yield findings for impossible ports, credentials in URLs, and unused TLS options. ``path`` is the path of the URLs'
    option.
    """
    for number, url in enumerate(urls):
        at = (*path, number) if len(urls) > 1 or path == ("urls",) else path
        try:
            parts = urlsplit(url)
            parse_url(url)
        except ValueError as error:
            yield Finding("bad-port", f"the URL cannot be used: {error}", at)
            continue
        if parts.username is not None or parts.password is not None:
            yield Finding("url-with-password", "credentials in a URL would show in messages", at, "give user and password")
    if tls is not None:
        yield from tls.check("tls")
        if all(url.startswith("http:") for url in urls):
            yield Finding("tls-unused", "tls is set, but no URL begins with https://", ("tls",), severity="warning")
