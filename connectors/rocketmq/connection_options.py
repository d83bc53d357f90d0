"""Options that the `rocketmq` source and sink share for connecting."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from pydantic import Field, SecretStr

from connectors.rocketmq.protocol.connection import ConnectionSettings
from connectors.rocketmq.protocol.signature import Credentials
from connectors.shared.endpoint import host_and_port
from connectors.shared.tls import ClientTls
from etl.api import Component, Duration, Finding


class ClusterOptions(Component):
    """Addresses and credentials of a cluster."""

    servers: tuple[str, ...] = Field(
        description="Name servers of the cluster, as host:port; if one does not answer, the next is used.",
        min_length=1,
        examples=[["rmq1.example.org:9876", "rmq2.example.org:9876"]],
    )
    user: str | None = Field(default=None, description="User name (access key); needs `password`.", min_length=1)
    password: SecretStr | None = Field(
        default=None, description="The user's password (the secret key).", examples=["${ROCKETMQ_PASSWORD}"]
    )
    tls: ClientTls | None = Field(
        default=None,
        description="Connect to name servers and brokers with TLS; `{}` trusts the system's certificate authorities.",
    )
    timeout: Duration = Field(
        default=timedelta(seconds=10),
        description="How long an answer may take; a second is added for each MiB.",
        gt=timedelta(0),
        examples=["30s"],
    )

    def settings(self) -> ConnectionSettings:
        """Return the settings of connections."""
        login = Credentials(self.user, self.password.get_secret_value()) if self.user and self.password else None
        return ConnectionSettings(self.servers, login, self.tls, self.timeout.total_seconds())

    def check_connection_options(self) -> Iterable[Finding]:
        """Yield a finding for each mistake in these options."""
        for number, address in enumerate(self.servers):
            try:
                host_and_port(address)
            except ValueError as error:
                yield Finding("bad-port", str(error), ("servers", number), "such as localhost:9876")
        if (self.user is None) != (self.password is None):
            given, missing = ("password", "user") if self.user is None else ("user", "password")
            yield Finding(f"missing-{missing}", f"{given} is given without {missing}", (given,), f"add {missing}: …")
        if self.tls is not None:
            yield from self.tls.check("tls")
