"""``etl studio``: the page on which a pipeline is made of pasted lines."""

from __future__ import annotations

from pathlib import Path

import click

EXAMPLES = """
\b
Examples:
  etl studio                    paste lines into the page
  etl studio /var/log/auth.log  what reads the first lines of this file
  etl studio ssh.yaml           edit a pipeline, and try it on pasted lines
"""

PORT = 8088
"""The port if none is named; the next free one if it is taken."""


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
        from etl.server.studio.command import serve
    except ModuleNotFoundError as error:
        raise click.ClickException(f"the page needs {error.name}; install it: pip install 'sluice-etl[server]'") from None
    serve(file, port, PORT, open_browser=not no_browser)
