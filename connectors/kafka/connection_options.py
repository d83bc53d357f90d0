"""Options that the `kafka` source and sink share for connecting, and their translation to properties of librdkafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr

from connectors.shared.tls import ClientTls
from etl.api import Duration, Finding

BrokerAddress = Annotated[
    str,
    Field(
        pattern=r"^[^\s,/]+$",
        json_schema_extra={
            "patternErrorMessage": "is not an address host:port: no blanks, no scheme, no path; several are a list"
        },
    ),
]
"""Address of a broker, ``host:port``."""
PropertyName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9._]*$")]
"""Name of a librdkafka property."""

_DEFAULT_PROPERTIES: Mapping[str, str] = {
    "client.id": "sluice",
    "log_level": "0",  # librdkafka also reports these messages to error_cb
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "2000",
    "retry.backoff.ms": "20",
    "retry.backoff.max.ms": "1000",
    "socket.nagle.disable": "true",
    "socket.keepalive.enable": "true",
}
"""Properties of every client; the option ``properties`` may override them."""

_PROPERTIES_WITH_OPTION: Mapping[str, str] = {
    "bootstrap.servers": "servers",
    "metadata.broker.list": "servers",
    "sasl.username": "user",
    "sasl.password": "password",
    "ssl.key.password": "tls.key_password",
    "ssl.key.pem": "tls.key",
    "ssl.keystore.password": "tls.key_password",
    "sasl.oauthbearer.client.secret": "password",
}
"""Properties that have an option of their own. Giving them under ``properties`` is an error: secrets among them would show in
messages.
"""

_RESERVED_PROPERTIES = frozenset(
    ["transactional.id", "enable.idempotence", "enable.auto.commit", "enable.partition.eof", "group.id", "auto.offset.reset"]
)
"""Properties that Sluice sets itself, because its delivery guarantee depends on them."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a client. Hashable, so that clients can be cached by it; its repr contains no secret."""

    servers: str
    timeout_seconds: float
    """How long a request may take."""
    properties: tuple[tuple[str, str], ...] = field(repr=False)

    def properties_with(self, **more: object) -> dict[str, object]:
        """All properties for librdkafka; the user's win. Underscores in the names of ``more`` become dots."""
        added = {name.replace("_", "."): value for name, value in more.items()}
        return {**_DEFAULT_PROPERTIES, **added, **dict(self.properties), "bootstrap.servers": self.servers}


class ClusterOptions(BaseModel):
    """Addresses and credentials of a cluster."""

    servers: tuple[BrokerAddress, ...] = Field(
        description="Bootstrap brokers, as host:port.",
        min_length=1,
        examples=[["kafka1.example.org:9092", "kafka2.example.org:9092"]],
    )
    user: str | None = Field(default=None, description="SASL user name; needs `password`.")
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${KAFKA_PASSWORD}"])
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="SASL mechanism; set others with `properties`."
    )
    tls: ClientTls | None = Field(
        default=None, description="Connect with TLS and these certificates; `{}` trusts the system's certificate authorities."
    )
    timeout: Duration = Field(
        default=timedelta(seconds=30),
        description="How long a request to the cluster may take.",
        gt=timedelta(0),
        examples=["1m"],
    )
    properties: dict[PropertyName, str | int | bool] = Field(
        default={},
        description="More librdkafka properties, by librdkafka's names.",
        examples=[{"client.rack": "eu-1a", "fetch.max.bytes": 10485760}],
    )

    def settings(self) -> ClientSettings:
        """Return what a client needs to connect."""
        given = {name: _format_property(value) for name, value in self.properties.items()}
        conf = {**_login_properties(self.user, self.password, self.mechanism, self.tls), **_tls_properties(self.tls), **given}
        return ClientSettings(",".join(self.servers), self.timeout.total_seconds(), tuple(sorted(conf.items())))

    def check_connection_options(self) -> Iterator[Finding]:
        """Yield a finding for each mistake in these options."""
        if self.tls is not None:
            yield from self.tls.check("tls")
        if self.password is not None and self.user is None:
            yield Finding("missing-user", "password is given without user", ("password",), "add user: …")
        for number, server in enumerate(self.servers):
            port = server.rpartition(":")[2] if ":" in server and not server.endswith("]") else "9092"
            if not (port.isdigit() and 0 < int(port) < 65536):
                message = f"{server!r} has no valid port; write host:port"
                yield Finding("bad-port", message, ("servers", number))
        for name in self.properties:
            if name in _PROPERTIES_WITH_OPTION:
                yield Finding(
                    "reserved-property",
                    f"{name} cannot be set under properties",
                    ("properties", name),
                    f"use {_PROPERTIES_WITH_OPTION[name]}",
                )
            elif name in _RESERVED_PROPERTIES:
                yield Finding(
                    "reserved-property", f"{name} is set by Sluice: its delivery guarantee depends on it", ("properties", name)
                )


def _format_property(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _login_properties(user: str | None, password: SecretStr | None, mechanism: str, tls: ClientTls | None) -> dict[str, str]:
    if user is None:
        return {"security.protocol": "ssl"} if tls else {}
    secret = password.get_secret_value() if password else ""
    protocol = "sasl_ssl" if tls else "sasl_plaintext"
    return {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": secret}


def _tls_properties(tls: ClientTls | None) -> dict[str, str]:
    if tls is None:
        return {}
    given = {
        "ssl.ca.location": tls.authority or "probe",
        "ssl.certificate.location": tls.certificate,
        "ssl.key.location": tls.key or tls.certificate,
        "ssl.key.password": tls.key_password.get_secret_value() if tls.key_password else None,
        "ssl.endpoint.identification.algorithm": "https" if tls.verify == "full" else "none",
        "enable.ssl.certificate.verification": "false" if tls.verify == "none" else "true",
    }
    return {name: value for name, value in given.items() if value is not None}
