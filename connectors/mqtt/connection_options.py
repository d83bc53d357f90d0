"""Options that the `mqtt` source and sink share for connecting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from pydantic import Field, SecretStr

from connectors.mqtt.packets import MAX_TEXT_BYTES
from connectors.shared.endpoint import host_and_port
from connectors.shared.tls import ClientTls
from etl.api import Component, Duration, Finding

MAX_KEEP_ALIVE_SECONDS = 0xFFFF


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Addresses, credentials and limits of a connection. Hashable; its repr shows no password."""

    servers: tuple[tuple[str, int], ...]
    version: str
    user: str | None
    password: SecretStr | None
    tls: ClientTls | None
    timeout: float
    """Seconds that an answer may take."""

    keep_alive: int
    """Seconds between two packets at most."""

    @property
    def login(self) -> tuple[str | None, str | None]:
        """User and password."""
        return self.user, self.password.get_secret_value() if self.password else None

    @property
    def is_version_5(self) -> bool:
        """Whether MQTT 5 is spoken."""
        return self.version == "5"


class BrokerOptions(Component):
    """Addresses and credentials of a broker."""

    servers: tuple[str, ...] = Field(
        description="Brokers, as host:port; if one does not answer, the next is used.",
        min_length=1,
        examples=[["mqtt.example.org:1883"]],
    )
    version: Literal["3.1.1", "5"] = Field(
        default="5", description="Version of MQTT, in quotes.", json_schema_extra={"patternErrorMessage": "write '3.1.1' or '5'"}
    )
    user: str | None = Field(default=None, description="User name.", min_length=1)
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${MQTT_PASSWORD}"])
    tls: ClientTls | None = Field(
        default=None, description="Connect with TLS and these certificates; `{}` trusts the system's certificate authorities."
    )
    keep_alive: Duration = Field(
        default=timedelta(seconds=60),
        description="After this time without a packet the other side counts as gone.",
        ge=timedelta(seconds=1),
        le=timedelta(seconds=MAX_KEEP_ALIVE_SECONDS),
    )
    timeout: Duration = Field(
        default=timedelta(seconds=10), description="How long an answer of the broker may take.", gt=timedelta(0)
    )

    def settings(self) -> ConnectionSettings:
        """Return the settings of connections. Raises ValueError if an address is wrong."""
        return ConnectionSettings(
            tuple(map(host_and_port, self.servers)),
            self.version,
            self.user,
            self.password,
            self.tls,
            self.timeout.total_seconds(),
            round(self.keep_alive.total_seconds()),
        )

    def check_connection_options(self) -> Iterator[Finding]:
        """Yield a finding for each mistake in these options."""
        for number, address in enumerate(self.servers):
            try:
                host_and_port(address)
            except ValueError as error:
                hint = "such as localhost:1883, or localhost:8883 with tls"
                yield Finding("bad-port", str(error), ("servers", number), hint)
        if self.password is not None and self.user is None:
            yield Finding("missing-user", "password is given without user", ("password",), "add user: …")
        secret = self.password.get_secret_value() if self.password else ""
        for name, text in (("user", self.user or ""), ("password", secret)):
            if len(text.encode()) > MAX_TEXT_BYTES:
                yield Finding("too-long", f"{name} has more than {MAX_TEXT_BYTES:,} bytes, the limit of MQTT", (name,))
        if self.tls is not None:
            yield from self.tls.check("tls")


def check_topic(topic: str) -> str:
    """Return what is wrong with a text as a topic or a filter of topics, or an empty text."""
    if not topic:
        return "is empty"
    if "\0" in topic:
        return "has a NUL character"
    if len(topic.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        return f"has more than {MAX_TEXT_BYTES:,} bytes"
    return ""


def check_filter(text: str) -> str:
    """Return what is wrong with a filter of topics, or an empty text (section 4.7.1; shared subscriptions: 4.8.2)."""
    if problem := check_topic(text):
        return problem
    if text.startswith("$share/"):
        _, _, rest = text.partition("/")
        group, slash, text = rest.partition("/")
        if not group or "+" in group or "#" in group:
            return "has no name of a group without + and #: write $share/group/filter"
        if not slash or not text:
            return "has no filter after the group: write $share/group/filter"
    levels = text.split("/")
    for at, level in enumerate(levels):
        if "#" in level and (level != "#" or at < len(levels) - 1):
            return "has a # that is not the whole last level: write it as in site/#"
        if "+" in level and level != "+":
            return "has a + that is not a whole level: write it as in site/+/temperature"
    return ""
