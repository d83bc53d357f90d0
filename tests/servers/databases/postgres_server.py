"""PostgreSQL: the installed one, or that of the Debian package."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import stat
import struct
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from servers import debian, ports
from servers.certificates import Certificates
from servers.command import run
from servers.process import Command
from servers.server import Server, copy
from servers.watchdog import watchdog

PACKAGES = ("postgresql",)
INSTALLED = Path("/usr/lib/postgresql")
"""Folder of Debian's programs, which is not on the path."""
SECONDS = 3.0
PROTOCOL = 3 << 16
AUTHENTICATE = b"R"
"""Type of the first message of a server that accepts logins; one that still starts or recovers sends an error."""


class Postgres(Server):
    """A server with the database ``sluice`` and a user that has a password; ``settings`` are server parameters.

    PostgreSQL refuses to run as root: root runs it as ``nobody``.
    """

    name: ClassVar[str] = "postgres"
    stopping: ClassVar[int] = signal.SIGINT  # "fast": SIGTERM waits until every client has left
    host, user, password, database = ports.HOST, "sluice", "change-me", "sluice"

    def __init__(self, *, port: int = 0, tls: Certificates | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self.tls, self.settings = tls, dict(settings or {})
        self.port = port or ports.free()[0]
        self.address = f"{self.host}:{self.port}"
        self.url = f"postgresql+psycopg://{self.user}:{self.password}@{self.address}/{self.database}"

    def prepare(self) -> None:
        """Create a cluster with one user, and the database."""
        self.folder.chmod(0o755)
        data, secret = self.folder / "data", self.folder / "password"
        data.mkdir(mode=0o700)
        secret.write_text(self.password)
        if self.tls is not None:
            self._keep_key(self.tls)
        for path in (data, *self.folder.glob("server.*")):
            _give(path)
        options = [f"--pwfile={secret}", "--auth=scram-sha-256", "--locale=C", "--encoding=UTF8", "--no-sync"]
        self._run("initdb", "-D", data, "-U", self.user, *options)
        self._run("postgres", "--single", "-D", data, "postgres", input=f"CREATE DATABASE {self.database};\n")

    def command(self) -> Command:
        tls = {"ssl": "on", "ssl_cert_file": self.folder / "server.pem", "ssl_key_file": self.folder / "server.key"}
        own = {"listen_addresses": self.host, "port": self.port, "unix_socket_directories": "", "shared_buffers": "64MB"}
        given = {**own, **(tls if self.tls else {}), **self.settings}
        options = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        return self._command("postgres", "-D", self.folder / "data", *options)

    def ready(self) -> bool:
        """Return whether it answers a login with a request for the password."""
        with socket.create_connection((self.host, self.port), SECONDS) as connection:
            login = f"user\0{self.user}\0database\0{self.database}\0\0".encode()
            connection.sendall(struct.pack(">ii", 8 + len(login), PROTOCOL) + login)
            return connection.recv(1) == AUTHENTICATE

    def _keep_key(self, certificates: Certificates) -> None:
        """Copy the key: the server needs one that only its user can read."""
        copied = shutil.copy(certificates.server.key, self.folder / "server.key")
        Path(copied).chmod(0o600)
        shutil.copy(certificates.server.certificate, self.folder / "server.pem")

    def _command(self, program: str, *words: object) -> Command:
        folder, environment = _programs()
        return Command([folder / program, *words], self.folder, environment, _user())

    def _run(self, program: str, *words: object, **options: Any) -> None:
        command = self._command(program, *words)
        run(*command.words, **command.options(), **options)


def _user() -> int | None:
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _give(path: Path) -> None:
    if (user := _user()) is not None:
        os.chown(path, user, -1)


def _programs() -> tuple[Path, dict[str, str]]:
    """Return the folder of ``postgres`` and ``initdb``, and the environment that they need."""
    on_path = [Path(found)] if (found := shutil.which("postgres")) else []
    if installed := [*sorted(INSTALLED.glob("*/bin/postgres")), *on_path]:
        return installed[-1].resolve().parent, {}
    tree = debian.Unpacked(_reachable(debian.unpacked("postgres", PACKAGES).root))
    return tree.find("usr/lib/postgresql/*/bin/postgres").parent, tree.environment()


@cache
def _reachable(root: Path) -> Path:
    """Return a tree that another user can read: a run of root copies it, because only root can read root's cache."""
    if _user() is None or all(folder.stat().st_mode & stat.S_IXOTH for folder in root.parents):
        return root
    near = Path(tempfile.mkdtemp(prefix="sluice-postgres-programs-"))
    watchdog().tell("keep", near)
    near.chmod(0o755)
    copy(root, near)
    return near
