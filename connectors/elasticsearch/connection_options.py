"""Options that the `elasticsearch` source and sink share for connecting."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from connectors.http.connection_settings import ConnectionSettings, check_login, check_secrets, login_headers
from connectors.http.urls import check_urls
from connectors.shared.tls import ClientTls
from etl.api import Component, Duration, Finding

ClusterUrl = Annotated[str, Field(pattern=r"^https?://[^\s/?#]+(/[^\s?#]*)?$")]
"""URL of a node: ``https://host:port``, possibly with a path that a proxy adds."""


class ClusterOptions(Component):
    """Addresses and credentials of a cluster."""

    urls: tuple[ClusterUrl, ...] = Field(
        description="Nodes of the cluster; if one does not respond, the next is used.",
        min_length=1,
        examples=[["https://es1.example.org:9200", "https://es2.example.org:9200"]],
    )
    user: str | None = Field(default=None, description="User name; needs `password`.")
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${ES_PASSWORD}"])
    api_key: SecretStr | None = Field(
        default=None, description="An encoded API key, as the server returns it, instead of a user.", examples=["${ES_API_KEY}"]
    )
    token: SecretStr | None = Field(default=None, description="A bearer token, instead of a user.", examples=["${ES_TOKEN}"])
    tls: ClientTls | None = Field(default=None, description="Certificates, for https URLs.")
    timeout: Duration = Field(
        default=timedelta(seconds=90),
        description="How long a request and its response may take.",
        gt=timedelta(0),
        examples=["2m"],
    )
    compression: Literal["none", "gzip"] = Field(
        default="none",
        description="Compression of request bodies; gzip saves four fifths of the network traffic and costs much CPU time.",
    )

    def connection_settings(self) -> ConnectionSettings:
        """Return the settings of the client."""
        headers = login_headers(self.user, self.password, self.token)
        if self.api_key is not None:
            headers = {"Authorization": SecretStr(f"ApiKey {self.api_key.get_secret_value()}")}
        seconds, is_compressed = self.timeout.total_seconds(), self.compression == "gzip"
        return ConnectionSettings(self.urls, seconds, self.tls, tuple(headers.items()), is_compressed)

    def check_connection_options(self) -> Iterable[Finding]:
        """Yield a finding for each mistake in these options."""
        yield from check_urls(self.urls, self.tls, "urls")
        yield from check_login(self.user, self.password, {"api_key": self.api_key, "token": self.token})
        yield from check_secrets({"api_key": self.api_key, "token": self.token})
