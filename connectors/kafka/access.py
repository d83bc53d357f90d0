"""How a cluster is reached: the options that source and sink share, and what librdkafka calls them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr

from connectors.tls import ClientTls
from etl.api import Duration, Finding

Address = Annotated[
    str,
    Field(
        pattern=r"^[^\s,/]+$",
        json_schema_extra={"patternErrorMessage": "is no address host:port: no blanks, no scheme, no path; several are a list"},
    ),
]
"""Of a broker."""
Property = Annotated[str, Field(pattern=r"^[a-z][a-z0-9._]*$")]

_CALM: Mapping[str, str] = {
    "client.id": "sluice",
    "log_level": "0",  # what it logs, it tells us as errors too
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "2000",
    "retry.backoff.ms": "20",
    "retry.backoff.max.ms": "1000",
    "socket.nagle.disable": "true",
    "socket.keepalive.enable": "true",
}

_OURS: Mapping[str, str] = {
    "bootstrap.servers": "servers",
    "metadata.broker.list": "servers",
    "sasl.username": "user",
    "sasl.password": "password",
    "ssl.key.password": "tls.key_password",
    "ssl.key.pem": "tls.key",
    "ssl.keystore.password": "tls.key_password",
    "sasl.oauthbearer.client.secret": "password",
}
"""Properties that options stand for: secrets among them would show in messages."""

_FORBIDDEN = frozenset(
    ["transactional.id", "enable.idempotence", "enable.auto.commit", "enable.partition.eof", "group.id", "auto.offset.reset"]
)
"""Properties that delivery rests on."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What makes a client: hashable, so that clients can be kept by it, and silent about secrets."""

    servers: str
    seconds: float
    """How long an answer may take."""
    properties: tuple[tuple[str, str], ...] = field(repr=False)

    def conf(self, **more: object) -> dict[str, object]:
        """Properties of librdkafka: the user's come last; underscores in the names of ``more`` are dots."""
        added = {name.replace("_", "."): value for name, value in more.items()}
        return {**_CALM, **added, **dict(self.properties), "bootstrap.servers": self.servers}


class Cluster(BaseModel):
    """Addresses and credentials of a cluster."""

    servers: tuple[Address, ...] = Field(
        description="Brokers to ask first, as host:port; they name the others.",
        min_length=1,
        examples=[["kafka1.example.org:9092", "kafka2.example.org:9092"]],
    )
    user: str | None = Field(default=None, description="Who logs in (SASL), with `password`.")
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${KAFKA_PASSWORD}"])
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="How a user logs in; others go by `properties`."
    )
    tls: ClientTls | None = Field(default=None, description="Talk TLS, with these certificates; `{}` trusts the system's.")
    timeout: Duration = Field(
        default=timedelta(seconds=30), description="How long the cluster may take to answer.", gt=timedelta(0), examples=["1m"]
    )
    properties: dict[Property, str | int | bool] = Field(
        default={},
        description="Further properties of librdkafka, by its names.",
        examples=[{"client.rack": "eu-1a", "fetch.max.bytes": 10485760}],
    )

    def settings(self) -> Settings:
        """For a client."""
        given = {name: _spelled(value) for name, value in self.properties.items()}
        conf = {**_login(self.user, self.password, self.mechanism, self.tls), **_tls(self.tls), **given}
        return Settings(",".join(self.servers), self.timeout.total_seconds(), tuple(sorted(conf.items())))

    def check_access(self) -> Iterator[Finding]:
        """Findings about these options."""
        if self.tls is not None:
            yield from self.tls.check("tls")
        if self.password is not None and self.user is None:
            yield Finding("missing-user", "password is given, and no user", ("password",), "add user: …")
        for number, server in enumerate(self.servers):
            port = server.rpartition(":")[2] if ":" in server and not server.endswith("]") else "9092"
            if not (port.isdigit() and 0 < int(port) < 65536):
                message = f"{server!r} has no port that there is; a broker is host:port"
                yield Finding("bad-port", message, ("servers", number))
        for name in self.properties:
            if name in _OURS:
                yield Finding(
                    "reserved-property", f"{name} is not given as a property", ("properties", name), f"use {_OURS[name]}"
                )
            elif name in _FORBIDDEN:
                yield Finding("reserved-property", f"{name} is set by Sluice: delivery rests on it", ("properties", name))


def _spelled(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _login(user: str | None, password: SecretStr | None, mechanism: str, tls: ClientTls | None) -> dict[str, str]:
    if user is None:
        return {"security.protocol": "ssl"} if tls else {}
    secret = password.get_secret_value() if password else ""
    protocol = "sasl_ssl" if tls else "sasl_plaintext"
    return {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": secret}


def _tls(tls: ClientTls | None) -> dict[str, str]:
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
