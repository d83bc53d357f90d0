"""An S3 server in this process: moto, which answers as S3 and SQS do and keeps objects and messages in memory."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread
from types import TracebackType
from typing import Any, Self

from servers.ports import HOST

REGION = "us-east-1"

POLL_SECONDS = 0.02
"""How often the server looks whether it has to end; that of moto looks every 0.5 s."""


class ObjectStore:
    """The server, and how clients reach it."""

    def __init__(self) -> None:
        from moto.moto_server import werkzeug_app as moto  # half a second that no collection of tests pays
        from werkzeug.serving import make_server

        app = moto.DomainDispatcherApplication(moto.create_backend_app)
        self._server = make_server(HOST, 0, app, threaded=True, request_handler=moto.MotoRequestHandler)
        self._thread = Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), name="object store", daemon=True)

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
        """A client that asks nobody but this server."""
        import boto3

        login = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": REGION}
        return boto3.client(service, endpoint_url=f"http://{self.address}", **login)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
