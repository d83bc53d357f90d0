"""How a cluster is reached: the options that source and sink share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from pydantic import Field, SecretStr

from connectors.rocketmq.connection import Access
from connectors.rocketmq.places import host_and_port
from connectors.rocketmq.signing import Login
from connectors.tls import ClientTls
from etl.api import Component, Duration, Finding


class Servers(Component):
    """Addresses and credentials of a cluster."""

    servers: tuple[str, ...] = Field(
        description="Name servers of the cluster, host:port; another is asked when one does not answer.",
        min_length=1,
        examples=[["rmq1.example.org:9876", "rmq2.example.org:9876"]],
    )
    user: str | None = Field(default=None, description="Who logs in (the access key), with `password`.", min_length=1)
    password: SecretStr | None = Field(
        default=None, description="The user's password (the secret key).", examples=["${ROCKETMQ_PASSWORD}"]
    )
    tls: ClientTls | None = Field(
        default=None, description="Connect by TLS, to name servers and brokers; `tls: {}` trusts the system's authorities."
    )
    timeout: Duration = Field(
        default=timedelta(seconds=10),
        description="How long an answer may take, and a second more for each MiB.",
        gt=timedelta(0),
        examples=["30s"],
    )

    def access(self) -> Access:
        """For connections."""
        login = Login(self.user, self.password.get_secret_value()) if self.user and self.password else None
        return Access(self.servers, login, self.tls, self.timeout.total_seconds())

    def check_access(self) -> Iterable[Finding]:
        """Findings about these options."""
        for number, place in enumerate(self.servers):
            try:
                host_and_port(place)
            except ValueError as error:
                yield Finding("bad-port", str(error), ("servers", number), "such as localhost:9876")
        if (self.user is None) != (self.password is None):
            given, missing = ("password", "user") if self.user is None else ("user", "password")
            yield Finding(f"missing-{missing}", f"{given} is given, and no {missing}", (given,), f"add {missing}: …")
        if self.tls is not None:
            yield from self.tls.check("tls")
