"""Runs the studio's server on loopback until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from pathlib import Path

import click
import uvicorn

from etl.api import EtlError
from etl.server.studio.standalone import standalone_app

HOST = "127.0.0.1"


def serve(file: Path | None, port: int | None, usual_port: int, open_browser: bool) -> None:
    """Print the address with its token, and serve. Raises EtlError if the port is taken."""
    listening = _listen(port, usual_port)
    token = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{listening.getsockname()[1]}/studio#token={token}"
    click.echo(f"studio: {address}\nend it with Ctrl-C")
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(standalone_app(Path.cwd(), file, token), log_level="warning", server_header=False, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


def _listen(port: int | None, usual_port: int) -> socket.socket:
    """A listening socket: on the port that is named, else on the usual or any free one."""
    for number in [usual_port, 0] if port is None else [port]:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, number))
            return listening
        except OSError as error:
            listening.close()
            reason = error.strerror
    raise EtlError(f"port {port} of {HOST} cannot be used: {reason}; name another one with --port")
