"""S3 servers: moto, which answers as S3 and SQS do and keeps objects and messages in memory, in this process or in its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from threading import Thread
from types import TracebackType
from typing import Any, Self

from servers import ports
from servers.ports import HOST

REGION = "us-east-1"

POLL_SECONDS = 0.02
"""How often the server looks whether it has to end; that of moto looks every 0.5 s."""

START_SECONDS = 120.0


class ObjectStore:
    """The server, and how clients reach it."""

    def __init__(self) -> None:
        from moto.moto_server import werkzeug_app as moto  # half a second that no collection of tests pays
        from werkzeug.serving import make_server

        app = moto.DomainDispatcherApplication(moto.create_backend_app)
        self._server = make_server(HOST, 0, app, threaded=True, request_handler=moto.MotoRequestHandler)
        self._thread = Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), name="object store", daemon=True)
        self._clients = ExitStack()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{HOST}:{self._server.server_port}"

    @property
    def login(self) -> Mapping[str, str]:
        """The environment variables of a client without the address."""
        return {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": REGION}

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of a client."""
        return {**self.login, "AWS_ENDPOINT_URL": f"http://{self.address}"}

    def client(self, service: str = "s3") -> Any:
        """A client that asks nobody but this server, closed with it."""
        return self._clients.enter_context(closing(_client(self.address, service)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._clients.close()  # a connection that only garbage collection closes fails the last test of the process
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class StoreProcess:
    """A server in a process of its own, for clients that hold the interpreter's lock while they wait for an answer."""

    def __init__(self) -> None:
        self.port = ports.free()[0]
        self.address = f"{HOST}:{self.port}"
        self._clients = ExitStack()

    def client(self) -> Any:
        """A client that asks nobody but this server, closed with it."""
        return self._clients.enter_context(closing(_client(self.address, "s3")))

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            assert time.monotonic() < until, "the S3 server does not answer"
            time.sleep(POLL_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._clients.close()
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), 1):
                return True
        except OSError:
            return False


def _client(address: str, service: str) -> Any:
    import boto3

    login = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": REGION}
    return boto3.client(service, endpoint_url=f"http://{address}", **login)
