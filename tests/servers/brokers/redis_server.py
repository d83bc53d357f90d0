"""Redis: the one that is installed, else that of the Debian package."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from servers import debian, ports
from servers.certificates import Certificates
from servers.process import Command
from servers.server import Server

PACKAGES = ("redis-server", "redis-tools")
SECONDS = 3.0


class Redis(Server):
    """A server that appends each write to a file before it answers; ``settings`` are settings of Redis.

    With ``tls`` it listens with TLS only; clients need no certificate.
    """

    name: ClassVar[str] = "redis"
    host = ports.HOST

    def __init__(
        self,
        *,
        port: int = 0,
        password: str = "",
        tls: Certificates | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self.password, self.tls, self.settings = password, tls, dict(settings or {})
        self.port = port or ports.free()[0]
        self.address = f"{self.host}:{self.port}"
        self.url = f"{'rediss' if tls else 'redis'}://{self.address}"

    def command(self) -> Command:
        program, environment = _program()
        port = {"port": 0, "tls-port": self.port, **self._tls()} if self.tls else {"port": self.port}
        own = {"bind": self.host, "dir": self.folder, "save": "", "appendonly": "yes", "appendfsync": "always"}
        given = {**own, **port, **({"requirepass": self.password} if self.password else {}), **self.settings}
        return Command(
            [program, *(word for name, value in given.items() for word in (f"--{name}", value))], self.folder, environment
        )

    def ready(self) -> bool:
        """Return whether it answers; with TLS, whether it listens."""
        with socket.create_connection((self.host, self.port), SECONDS) as connection:
            if self.tls is not None:
                return True
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))

    def _tls(self) -> dict[str, object]:
        assert self.tls is not None
        files = {"tls-ca-cert-file": self.tls.authority, "tls-cert-file": self.tls.server.certificate}
        return {**files, "tls-key-file": self.tls.server.key, "tls-auth-clients": "no"}


def _program() -> tuple[Path, dict[str, str]]:
    if found := shutil.which("redis-server"):
        return Path(found), {}
    tree = debian.unpacked("redis", PACKAGES)
    return tree.find("usr/bin/redis-server"), tree.environment()
