"""A web server that records requests, in kill tests."""

from __future__ import annotations

from collections.abc import Iterator

from fake_http import FakeServer
from kill_table import Workspace


class HttpOutput:
    """The bodies of all requests."""

    def __init__(self, workspace: Workspace) -> None:
        self.server = workspace.cleanup.enter_context(FakeServer().running())
        self.options = f"type: http, urls: ['{self.server.url}'], format: ndjson"

    def delivered(self) -> Iterator[int]:
        return (event["n"] for request in self.server.requests for event in request.lines)

    def check(self, total: int) -> None:
        """Check nothing more."""
