"""MySQL 8.0.15 for Linux on x86-64, from a jar that another project published for its tests."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Mapping
from ctypes.util import find_library
from pathlib import Path
from typing import ClassVar

from servers import cache, debian, maven
from servers.command import run
from servers.databases.mariadb_server import MariaDb, Program, account

ARCHIVE = "mysql-Linux-amd64.tar.gz"


class MySql(MariaDb):
    """A server with the database ``sluice`` and a user that has a password; ``settings`` are options of ``mysqld``."""

    name: ClassVar[str] = "mysql8"
    settings: Mapping[str, object]

    def program(self) -> Program:
        root = _unpacked()
        return Program(root / "bin" / "mysqld", root / "bin" / "mysqld", [f"--basedir={root}", "--mysqlx=OFF"], _environment())

    def make_tables(self, program: Program) -> None:
        """Do nothing: the server initialises itself."""
        words = [program.server, "--no-defaults", "--initialize-insecure", f"--user={account()}", *program.base]
        run(*words, f"--datadir={self.folder / 'data'}", env={**os.environ, **program.environment})


def _unpacked() -> Path:
    jars = maven.jars("mysql")
    return cache.fetch_once(f"{jars.name}-unpacked", lambda part: _unpack(jars, part))


def _unpack(jars: Path, part: Path) -> None:
    (jar,) = (jars / "lib").glob("*.jar")
    with zipfile.ZipFile(jar) as content, content.open(ARCHIVE) as packed, tarfile.open(fileobj=packed) as archive:
        archive.extractall(part, filter="data")


def _environment() -> dict[str, str]:
    """Return an environment with libaio, which few machines have."""
    return {} if find_library("aio") else debian.unpacked("libaio", ("libaio1",)).environment()
