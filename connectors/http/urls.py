"""Addresses of servers: taken apart, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from connectors.tls import ClientTls
from etl.api import Finding

Url = Annotated[str, Field(pattern=r"^https?://[^\s/?#]+([/?][^\s#]*)?$")]
"""Where a server is: ``https://host:port/path``."""

PORTS = {"http": 80, "https": 443}


class Place(NamedTuple):
    """A URL's parts."""

    scheme: str
    host: str
    port: int
    path: str
    """With its query, and without a slash at its end: other paths are put behind it."""
    target: str = "/"
    """What is asked for where nothing is put behind: the path as it is written, with its query."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parsed(url: str) -> Place:
    """A URL of the pattern, taken apart. Raises ValueError when its port is none."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    return Place(parts.scheme, host, port, parts.path.rstrip("/") + query, (parts.path or "/") + query)


def check_urls(urls: Sequence[str], tls: ClientTls | None, *path: str | int) -> Iterator[Finding]:
    """Ports that there are not, credentials in URLs, TLS for nothing. ``path`` leads to the URLs' option."""
    for number, url in enumerate(urls):
        at = (*path, number) if len(urls) > 1 or path == ("urls",) else path
        try:
            parts = urlsplit(url)
            parsed(url)
        except ValueError as error:
            yield Finding("bad-port", f"the URL cannot be used: {error}", at)
            continue
        if parts.username is not None or parts.password is not None:
            yield Finding("url-with-password", "credentials in a URL would show in messages", at, "give user and password")
    if tls is not None:
        yield from tls.check("tls")
        if all(url.startswith("http:") for url in urls):
            yield Finding("tls-unused", "tls is set, and no URL begins with https://", ("tls",), severity="warning")
