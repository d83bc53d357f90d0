"""MariaDB: the one that is installed, else the one of the Debian package."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from servers import debian, ports
from servers.certificates import Certificates
from servers.command import CommandError, run
from servers.process import Command
from servers.server import Server

PACKAGES = ("mariadb-server-core", "mariadb-client-core")
SECONDS = 3.0
ERROR = 0xFF
"""The first byte of a greeting that is a refusal."""


class MariaDb(Server):
    """A server with the database ``sluice`` and a user that has a password; ``settings`` are options of ``mariadbd``."""

    name: ClassVar[str] = "mariadb"
    host, user, password, database = ports.HOST, "sluice", "change-me", "sluice"

    def __init__(self, *, port: int = 0, tls: Certificates | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self.tls, self.settings = tls, dict(settings or {})
        self.port = port or ports.free()[0]
        self.address = f"{self.host}:{self.port}"
        self.url = f"mysql+pymysql://{self.user}:{self.password}@{self.address}/{self.database}"

    def prepare(self) -> None:
        """System tables, and what creates our user at every start."""
        self.make_tables(self.program())
        (self.folder / "users.sql").write_text(
            f"CREATE DATABASE IF NOT EXISTS {self.database};\n"
            f"CREATE USER IF NOT EXISTS '{self.user}'@'{self.host}' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO '{self.user}'@'{self.host}' WITH GRANT OPTION;\n"
        )

    def program(self) -> Program:
        """What is run, from where."""
        return _program()

    def make_tables(self, program: Program) -> None:
        """Those of the system."""
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", f"--user={account()}"]
        install = [program.install, "--no-defaults", f"--datadir={self.folder / 'data'}", *program.base, *options]
        environment = {**os.environ, **program.environment}
        try:
            run(*install, env=environment)
        except CommandError:  # seen once, on a busy machine
            shutil.rmtree(self.folder / "data", ignore_errors=True)
            run(*install, env=environment)

    def command(self) -> Command:
        program = self.program()
        files = {"datadir": "data", "socket": "socket", "init-file": "users.sql", "pid-file": "pid"}
        own = {name: self.folder / file for name, file in files.items()}
        place = {"port": self.port, "bind-address": self.host, "user": account()}
        rest = {"local-infile": 1, "character-set-server": "utf8mb4", "innodb-buffer-pool-size": "64M", **self.settings}
        options = [f"--{name}={value}" for name, value in {**own, **place, **rest, **self._tls()}.items()]
        words = [program.server, "--no-defaults", "--skip-name-resolve", *program.base, *options]
        return Command(words, self.folder, program.environment)

    def ready(self) -> bool:
        """It greets, and the greeting is not a refusal: four bytes of length and number, then the kind."""
        with socket.create_connection((self.host, self.port), SECONDS) as connection:
            greeting = connection.recv(5)
            return len(greeting) == 5 and greeting[4] != ERROR

    def _tls(self) -> dict[str, object]:
        if self.tls is None:
            return {}
        return {"ssl-ca": self.tls.authority, "ssl-cert": self.tls.server.certificate, "ssl-key": self.tls.server.key}


@dataclass(frozen=True)
class Program:
    """Where the programs lie, and what tells them where their own files are."""

    server: Path
    install: Path
    base: list[str]
    environment: dict[str, str]


def _program() -> Program:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    server, install = shutil.which("mariadbd", path=path), shutil.which("mariadb-install-db", path=path)
    if server and install:
        return Program(Path(server), Path(install), [], {})
    tree = debian.unpacked("mariadb", PACKAGES)
    base = [f"--basedir={tree.root / 'usr'}"]
    return Program(tree.find("usr/sbin/mariadbd"), tree.find("usr/bin/mariadb-install-db"), base, tree.environment())


def account() -> str:
    """The server changes to another user when root starts it, unless root is named."""
    return pwd.getpwuid(os.geteuid()).pw_name
