"""Options that the `redis` source and sink share for connecting, and the client made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field, SecretStr

from connectors.shared.tls import ClientTls
from etl.api import Component, ComponentError, Duration, Finding

_NODE = r"(\[[0-9A-Fa-f:.]+\]|[^/:@\[\]]+)(?::([0-9]{1,5}))?"
_URL = re.compile(r"(rediss?)://(\[[0-9A-Fa-f:.]+\]|[^/:@\[\]]+)(?::([0-9]{1,5}))?(?:/([0-9]{1,4})?)?")
_TEMPORARY = (
    "OOM",
    "used memory",
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "READONLY",
    "TRYAGAIN",
    "BUSY",
    "NOREPLICAS",
    "MISCONF",
)
"""Words of errors after which another try may succeed."""

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Address and credentials. Hashable; its repr shows no password."""

    host: str
    port: int
    database: int
    user: str | None
    password: SecretStr | None
    tls: ClientTls | None
    timeout: float
    """Seconds."""
    sentinel: str | None = None
    """Name of the master, if the address is that of a Sentinel."""
    sentinel_password: SecretStr | None = None
    cluster: bool = False
    nodes: tuple[tuple[str, int], ...] = ()
    """Further Sentinels, or nodes of the cluster."""

    @property
    def name(self) -> str:
        """The server, for messages."""
        kind = f" {self.sentinel!r} by the Sentinel" if self.sentinel else " cluster" if self.cluster else ""
        return f"redis{kind} {self.host}:{self.port}"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """All addresses to ask."""
        return [(self.host, self.port), *self.nodes]


class ServerOptions(Component):
    """Address and credentials of a server."""

    url: str = Field(
        description="Address of the server: redis://host:port/database, or rediss:// for TLS; without user and password.",
        pattern=r"^rediss?://",
        json_schema_extra={"patternErrorMessage": "is not an address: write redis://host:6379 or rediss://host:6379/0"},
        examples=["redis://localhost:6379/0"],
    )
    user: str | None = Field(default=None, description="User name (ACL); needs `password`.", min_length=1)
    password: SecretStr | None = Field(
        default=None, description="Password, of the user if one is given.", examples=["${REDIS_PASSWORD}"]
    )
    tls: ClientTls | None = Field(default=None, description="Certificates, for rediss:// addresses.")
    timeout: Duration = Field(default=timedelta(seconds=10), description="How long an answer may take.", gt=timedelta(0))
    sentinel: str | None = Field(
        default=None,
        description="Name of the master that Redis Sentinel watches; `url` is then the address of a Sentinel (port 26379).",
        min_length=1,
        examples=["mymaster"],
    )
    sentinel_password: SecretStr | None = Field(default=None, description="Password of the Sentinels, if they have one.")
    cluster: bool = Field(default=False, description="Whether `url` is a node of a Redis Cluster; the others are found by it.")
    nodes: tuple[Annotated[str, Field(pattern=f"^{_NODE}$")], ...] = Field(
        default=(),
        description="Further Sentinels or nodes of the cluster, as host:port, for when the one in `url` does not answer.",
        examples=[["redis-2:26379", "redis-3:26379"]],
    )

    def settings(self) -> ConnectionSettings:
        """Return what a client needs. Raises ValueError if the URL is wrong."""
        found = _URL.fullmatch(self.url)
        if found is None:
            raise ValueError("the URL is not redis://host:port/database")
        scheme, host, port, database = found.groups()
        tls = (self.tls or ClientTls()) if scheme == "rediss" else None
        usual = SENTINEL_PORT if self.sentinel else DEFAULT_PORT
        return ConnectionSettings(
            _without_brackets(host),
            int(port or usual),
            int(database or 0),
            self.user,
            self.password,
            tls,
            self.timeout.total_seconds(),
            self.sentinel,
            self.sentinel_password,
            self.cluster,
            tuple(_node(text, usual) for text in self.nodes),
        )

    def check_connection_options(self) -> Iterator[Finding]:
        """Yield a finding for each mistake in these options."""
        if "@" in self.url:
            hint = "write user and password as options"
            yield Finding("url-with-password", "credentials in a URL would show in messages and logs", ("url",), hint)
        elif (found := _URL.fullmatch(self.url)) is None:
            hint = "such as redis://localhost:6379/0"
            yield Finding("bad-url", f"{self.url!r} is not redis://host:port/database", ("url",), hint)
        elif not 0 < int(found[3] or DEFAULT_PORT) < 65536:
            yield Finding("bad-port", f"{found[3]} is not a port", ("url",))
        if self.user is not None and self.password is None:
            yield Finding("missing-password", "user is given without password", ("user",), "add password: …")
        yield from self._check_servers()
        if self.tls is not None:
            yield from self.tls.check("tls")
            if not self.url.startswith("rediss://"):
                message = "tls has no effect with a URL that begins with redis://"
                yield Finding("tls-unused", message, ("tls",), "write rediss://", severity="warning")

    def _check_servers(self) -> Iterator[Finding]:
        """Yield findings about Sentinels and clusters."""
        if self.sentinel and self.cluster:
            hint = "remove cluster: Sentinel watches masters without a cluster"
            yield Finding("unused-option", "sentinel and cluster exclude each other", ("cluster",), hint)
        for name, needed in (("nodes", self.sentinel or self.cluster), ("sentinel_password", self.sentinel)):
            if getattr(self, name) and not needed:
                hint = "add sentinel: NAME" if name != "nodes" else "add sentinel: NAME or cluster: true"
                yield Finding("unused-option", f"{name} has no effect with a single server", (name,), hint)
        if self.cluster and (found := _URL.fullmatch(self.url)) is not None and int(found[4] or 0):
            yield Finding("bad-url", "a cluster has database 0 only", ("url",), f"leave out /{found[4]}")


def _without_brackets(host: str) -> str:
    return host.removeprefix("[").removesuffix("]")


def _node(text: str, usual: int) -> tuple[str, int]:
    found = re.fullmatch(_NODE, text)
    assert found is not None, text
    return _without_brackets(found[1]), int(found[2] or usual)


@lru_cache(maxsize=16)
def shared_client(settings: ConnectionSettings) -> Any:
    """Return this process's client of a server; that of a cluster connects at once. Raises ComponentError if redis-py is missing,
    and errors of redis-py."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise ComponentError(f"redis: the client is not installed ({error}): pip install 'sluice-etl[redis]'") from error
    options: dict[str, Any] = {}
    if (tls := settings.tls) is not None:
        tls.context()  # says in words which file is missing or wrong
        options = {
            "ssl": True,
            "ssl_ca_certs": tls.authority,
            "ssl_certfile": tls.certificate,
            "ssl_keyfile": tls.key or tls.certificate,
            "ssl_password": tls.key_password.get_secret_value() if tls.key_password else None,
            "ssl_check_hostname": tls.verify == "full",
            "ssl_cert_reqs": "none" if tls.verify == "none" else "required",
        }
    options |= {"socket_timeout": settings.timeout, "socket_connect_timeout": settings.timeout}
    options["retry"] = Retry(NoBackoff(), 0)  # the engine retries, and says so
    login: dict[str, Any] = {"username": settings.user, "password": _secret(settings.password)}
    if settings.sentinel:
        from redis.sentinel import Sentinel

        sentinel_options = {**options, "password": _secret(settings.sentinel_password)}
        watched = Sentinel(settings.addresses, sentinel_kwargs=sentinel_options)  # type: ignore[no-untyped-call]
        return watched.master_for(settings.sentinel, db=settings.database, **login, **options)  # type: ignore[no-untyped-call]
    if settings.cluster:
        from redis.cluster import ClusterNode, RedisCluster

        nodes = [ClusterNode(host, port) for host, port in settings.addresses]  # type: ignore[no-untyped-call]
        return RedisCluster(startup_nodes=nodes, **login, **options)
    return redis.Redis(settings.host, settings.port, settings.database, **login, **options)


def _secret(password: SecretStr | None) -> str | None:
    return password.get_secret_value() if password else None


@contextmanager
def errors_named(settings: ConnectionSettings) -> Iterator[None]:
    """Turn errors of the client into ours: OSError if another try may succeed, ComponentError otherwise. Both name the server."""
    import redis.exceptions as failures

    try:
        yield
    except (failures.AuthenticationError, failures.AuthorizationError) as error:
        raise ComponentError(f"{settings.name} refuses the login: {error}") from error
    except failures.NoPermissionError as error:
        raise ComponentError(f"{settings.name}: not permitted: {error}") from error
    except failures.TimeoutError as error:
        raise TimeoutError(f"{settings.name} has not answered within {settings.timeout:.0f} s") from error
    except failures.ConnectionError as error:
        cause = error.__cause__ or error.__context__
        text = str(getattr(cause, "verify_message", "") or error)
        if getattr(cause, "verify_message", ""):
            raise ComponentError(f"{settings.name}: the certificate is not accepted: {text}") from error
        raise ConnectionError(f"{settings.name}: {text}") from error
    except failures.ResponseError as error:
        if any(word in str(error)[:200] for word in _TEMPORARY):
            raise ConnectionError(f"{settings.name}: {error}") from error
        raise ComponentError(f"{settings.name}: {error}") from error
    except (failures.RedisError, failures.RedisClusterException) as error:
        raise ConnectionError(f"{settings.name}: {type(error).__name__}: {error}") from error


PROBE_TIMEOUT_SECONDS = 3.0


def probe_server(settings: ConnectionSettings) -> Iterator[Finding]:
    """Yield nothing. Raises OSError if the server does not answer, ComponentError if it refuses the login."""
    with errors_named(settings):
        shared_client(settings).ping()
    yield from ()
