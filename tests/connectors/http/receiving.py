"""An `http` source with its receiver, and requests to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

from source_events import read_all

from connectors.http.receiving.receiver import HttpReceiver
from connectors.http.source import HttpSource

ANY_PORT = "http://127.0.0.1:0"


class Answer(NamedTuple):
    """A response."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body as a value."""
        return json.loads(self.body)


def create_source(folder: Path, **options: Any) -> HttpSource:
    """A source with its journal in a folder."""
    values = {"type": "http", "listen": [ANY_PORT], **options}
    return HttpSource.model_validate(values).with_folder(str(folder / "journal"))


def send(receiver: HttpReceiver, path: str, body: bytes | None = None, method: str = "POST", **headers: str) -> Answer:
    """Send a request; ``_`` in the name of a header is ``-``."""
    connection = HTTPConnection("127.0.0.1", receiver.ports[0], timeout=120)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    answer = Answer(response.status, response.read(), {name.lower(): value for name, value in response.getheaders()})
    connection.close()
    return answer


def messages(source: HttpSource) -> list[str]:
    """The texts of the events of the journal."""
    return [row["message"] for row in read_all(source)]
