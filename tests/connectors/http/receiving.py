"""An `http` source with its receiver, and requests to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

from connectors.http.receiving.receiver import HttpReceiver
from connectors.http.source import HttpSource
from etl.api import Limit, Rejects

ANY_PORT = "http://127.0.0.1:0"
FAR = Limit(1 << 62)


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


@contextmanager
def receiving(source: HttpSource) -> Iterator[HttpReceiver]:
    """Run the receiver of a source."""
    receiver = source.receiver()
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop()


def send(receiver: HttpReceiver, path: str, body: bytes | None = None, method: str = "POST", **headers: str) -> Answer:
    """Send a request; ``_`` in the name of a header is ``-``."""
    connection = HTTPConnection("127.0.0.1", receiver.ports[0], timeout=120)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    answer = Answer(response.status, response.read(), {name.lower(): value for name, value in response.getheaders()})
    connection.close()
    return answer


def rows(source: HttpSource) -> list[dict[str, Any]]:
    """The events of the journal as workers read it; a rejected event has a ``code``."""
    found: list[dict[str, Any]] = []
    for split in source.splits(source.start(), source.latest(source.start(), FAR), 2):
        for batch in source.read(split):
            if isinstance(batch, Rejects):
                found += [{**row, "code": batch.code} for row in batch.events.to_pylist()]
            else:
                assert batch.schema.names == [*source.fields().names, "_offset"]
                found += batch.to_pylist()
    return found


def messages(source: HttpSource) -> list[str]:
    """The texts of the events of the journal."""
    return [row["message"] for row in rows(source)]
