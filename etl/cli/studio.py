"""``etl studio``: the page on which a pipeline is made from pasted lines."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from pathlib import Path

import click

from etl.api import EtlError

EXAMPLES = """
\b
Examples:
  etl studio                    paste lines into the page
  etl studio /var/log/auth.log  what reads the first lines of this file
  etl studio ssh.yaml           edit a pipeline, and try it on pasted lines
"""

HOST = "127.0.0.1"
"""The page is reachable from this machine only."""

PORT = 8088
"""The port if none is named; a free one if it is taken."""


@click.command("studio", epilog=EXAMPLES)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65_535), help=f"The port on this machine. [default: {PORT}, or a free one]")
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
def command(file: Path | None, port: int | None, no_browser: bool) -> None:
    """Open a page that finds what reads your lines, and shows each step of a pipeline on them as you type.

    FILE is a log, or a pipeline to edit. The page runs the real steps in this process's folder, as this user, and is
    reachable from this machine only, with the token in its address.
    """
    try:
        import uvicorn

        from etl.server.studio.standalone import standalone_app
    except ModuleNotFoundError as error:
        raise click.ClickException(f"the page needs {error.name}; install it: pip install 'sluice-etl[server]'") from None
    listening, token = _listen(port), secrets.token_urlsafe(24)
    address = f"http://{HOST}:{listening.getsockname()[1]}/studio#token={token}"
    click.echo(f"studio: {address}\nend it with Ctrl-C")
    if not no_browser:
        webbrowser.open(address)
    config = uvicorn.Config(standalone_app(Path.cwd(), file, token), log_level="warning", server_header=False, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


def _listen(port: int | None) -> socket.socket:
    """A listening socket: on the given port, else on `PORT` or a free one. Raises EtlError if the given port is taken."""
    for number in [PORT, 0] if port is None else [port]:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, number))
            return listening
        except OSError as error:
            listening.close()
            reason = error.strerror
    raise EtlError(f"port {port} of {HOST} cannot be used: {reason}; name another one with --port")
