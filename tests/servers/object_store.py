"""An S3 server in this process: moto, which answers as S3 and SQS do and keeps objects and messages in memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from servers.ports import HOST

REGION = "us-east-1"


class ObjectStore:
    """The server, and how clients reach it."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer  # half a second that no collection of tests pays

        self.server = ThreadedMotoServer(HOST, 0, verbose=False)

    @property
    def address(self) -> str:
        """Host and port."""
        return ":".join(map(str, self.server.get_host_and_port()))

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
        self.server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.server.stop()
