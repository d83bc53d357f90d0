"""ClickHouse: chDB, which is its engine as a library, behind a small HTTP server. There is no newer server in the registries
than Debian's 18.16, which knows neither Arrow nor tokens of blocks."""

from __future__ import annotations

import base64
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from servers import ports
from servers.cache import MissingError
from servers.process import Command
from servers.server import Server

SECONDS = 60.0


class ClickHouse(Server):
    """A server with the database ``sluice``, which is the default of its one user."""

    name: ClassVar[str] = "clickhouse"
    user, password, database = "sluice", "change-me", "sluice"

    def __init__(self, *, port: int = 0) -> None:
        super().__init__()
        self.port = port or ports.free()[0]
        self.address = f"http://{ports.HOST}:{self.port}"

    def command(self) -> Command:
        """Return the command line."""
        if find_spec("chdb") is None:
            raise MissingError("the package chdb-core-lite is not installed; pip install chdb-core-lite")
        script = Path(__file__).with_name("chdb_http.py")
        return Command([sys.executable, script, self.port, self.folder, self.user, self.password], self.folder)

    def ready(self) -> bool:
        """Return whether it answers."""
        with urlopen(f"{self.address}/ping", timeout=5) as response:
            return response.status == 200

    def ask(self, sql: str) -> tuple[int, str]:
        """Return status and body of the answer to a statement."""
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        request = Request(
            f"{self.address}/?default_format=JSONEachRow", sql.encode(), {"Authorization": f"Basic {login}"}, method="POST"
        )
        try:
            with urlopen(request, timeout=SECONDS) as response:
                return response.status, response.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a statement that must succeed."""
        status, text = self.ask(sql)
        assert status == 200, text
        return [json.loads(line) for line in text.splitlines()]
