"""Options of the sinks that send requests to a web server, and their client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Literal

from pydantic import Field, SecretStr

from connectors.http.client import Client
from connectors.http.connection_settings import (
    ConnectionSettings,
    HeaderName,
    check_login,
    check_secrets,
    login_headers,
)
from connectors.http.statuses import Status, Statuses, in_both
from connectors.http.urls import Url, check_urls
from connectors.shared.tls import ClientTls
from etl.api import Duration, Finding, Sink

RESERVED_HEADERS = ("content-length", "content-encoding", "accept-encoding", "transfer-encoding", "host", "connection")
"""Headers that the client sets."""


class RequestOptions(Sink):
    """Servers, headers, limits, and the statuses that are retried or end the run."""

    urls: tuple[Url, ...] = Field(
        description="URLs of the server; if one does not respond, the next is used.",
        min_length=1,
        examples=[["https://hooks.example.org/events"]],
    )
    headers: dict[HeaderName, SecretStr] = Field(
        default={}, description="Further headers of each request.", examples=[{"X-Api-Key": "${API_KEY}"}]
    )
    tls: ClientTls | None = Field(default=None, description="Certificates, for https URLs.")
    timeout: Duration = Field(
        default=timedelta(seconds=60), description="How long a request and its response may take.", gt=timedelta(0)
    )
    compression: Literal["none", "gzip"] = Field(default="none", description="Compression of request bodies.")
    retry_on: tuple[Status, ...] = Field(
        default=(408, 425, 429, "5xx"), description="Statuses that are temporary.", examples=[[408, 429, "5xx"]]
    )
    stop_on: tuple[Status, ...] = Field(
        default=(401, 403, 404, 405, 407), description="Statuses that end the run, because all events would get them."
    )

    def login(self) -> Mapping[str, SecretStr]:
        """Return the headers of the sink's own options, such as the login."""
        raise NotImplementedError

    def connection_settings(self) -> ConnectionSettings:
        """Return the settings of the client."""
        headers = {**self.headers, **self.login()}
        return ConnectionSettings(
            self.urls, self.timeout.total_seconds(), self.tls, tuple(headers.items()), self.compression == "gzip"
        )

    def shared_client(self) -> Client:
        """Return this process's client."""
        from connectors.http.client import shared_client

        return shared_client(self.connection_settings())

    def statuses(self) -> Statuses:
        """Return how statuses are handled."""
        return Statuses(self.retry_on, self.stop_on)

    def probe_path(self, method: str, path: str) -> Iterable[Finding]:
        """Check that the servers respond to a request without events, TLS works, and the login is accepted."""
        from connectors.http.probe import probe

        return probe(self.connection_settings(), self.stop_on, method, path)

    def check_requests(self) -> Iterator[Finding]:
        """Check URLs, headers, and statuses in both lists."""
        yield from check_urls(self.urls, self.tls, "urls")
        for name, value in self.headers.items():
            if name.lower() in RESERVED_HEADERS:
                yield Finding("bad-header", f"{name} is set by the sink itself", ("headers", name))
            elif name.lower() in {own.lower() for own in self.login()}:
                yield Finding("several-logins", "another option sets this header", ("headers", name), "keep one of them")
            for finding in check_secrets({name: value}):
                yield Finding(finding.code, finding.message, ("headers", name))
        for status in in_both(self.retry_on, self.stop_on):
            yield Finding("status-conflict", f"{status} is both in retry_on and in stop_on", ("stop_on",))

    def check_base_urls(self, path: str) -> Iterator[Finding]:
        """Check that URLs do not contain the path that the sink appends."""
        own = path.rsplit("/", 1)[0]
        for number, url in enumerate(self.urls):
            if own in url:  # which can have a password, so the hint does not show it
                hint = f"leave out {own} and what follows it"
                yield Finding("invalid-value", f"the sink appends {path} to the URL", ("urls", number), hint)


class LoginOptions(RequestOptions):
    """A user with a password, or a bearer token."""

    user: str | None = Field(default=None, description="User name; needs `password`.")
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${PASSWORD}"])
    token: SecretStr | None = Field(default=None, description="A bearer token, instead of a user.", examples=["${TOKEN}"])

    def login(self) -> Mapping[str, SecretStr]:
        """Return the header Authorization, if there is a login."""
        return login_headers(self.user, self.password, self.token)

    def check_requests(self) -> Iterator[Finding]:
        """Also check the login."""
        yield from check_login(self.user, self.password, {"token": self.token})
        yield from check_secrets({"token": self.token})
        yield from super().check_requests()
