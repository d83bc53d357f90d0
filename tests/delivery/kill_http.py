"""A web server that records, in trials in which runs are killed."""

from __future__ import annotations

from collections.abc import Iterator

from fake_http import FakeServer
from kill_table import Stage


class HttpCatch:
    """All bodies that were sent."""

    def __init__(self, stage: Stage) -> None:
        self.server = stage.clearing.enter_context(FakeServer().running())
        self.options = f"type: http, urls: ['{self.server.url}'], format: ndjson"

    def delivered(self) -> Iterator[int]:
        return (event["n"] for request in self.server.requests for event in request.lines)

    def prove(self, total: int) -> None:
        """Nothing more."""
