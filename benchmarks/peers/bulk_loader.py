"""``python bulk_loader.py URL INDEX FILE CONNECTIONS``: a bulk loader as one writes it by hand, for comparison.

It writes an action before each JSON line as it stands and sends 5,000 at a time over connections that are kept; nothing is
parsed, tried again or remembered. Prints the seconds it took.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

BATCH = 5000
ACTION = b'{"create":{"_id":"0123456789abcdef01234567-%d"}}\n'
"""With an id as long as those of the engine."""


def batches(file: Path) -> Iterator[bytes]:
    """Bodies."""
    with file.open("rb") as lines:
        numbered = enumerate(lines)
        while part := list(itertools.islice(numbered, BATCH)):
            yield b"".join([ACTION % number + line for number, line in part])


def send(url: str, index: str, bodies: Iterator[bytes], lock: Lock) -> None:
    """One connection, until nothing is left."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port)
    path = f"/{index}/_bulk?filter_path=errors,items.*.status,items.*.error"
    while True:
        with lock:
            body = next(bodies, None)
        if body is None:
            return
        connection.request("POST", path, body, {"Content-Type": "application/x-ndjson"})
        answer = connection.getresponse().read()
        if b'"errors":false' not in answer[:100]:
            raise RuntimeError(answer[:1000])


def main() -> None:
    """Load a file."""
    url, index, file, connections = sys.argv[1:]
    bodies, lock = batches(Path(file)), Lock()
    began = time.monotonic()
    with ThreadPoolExecutor(int(connections)) as pool:
        for done in [pool.submit(send, url, index, bodies, lock) for _ in range(int(connections))]:
            done.result()
    print(time.monotonic() - began)


if __name__ == "__main__":
    main()
