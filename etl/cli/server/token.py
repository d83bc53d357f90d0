"""``etl token``: tokens of a server."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("name")
@click.option("--role", type=click.Choice(["read", "write"]), default="read", show_default=True, help="What the token may do.")
def command(file: Path, name: str, role: str) -> None:
    """Make a token, print it once, and add its hash to FILE.

    NAME says whose it is. A running server reads the file again when it has changed: to withdraw a token, remove its line.
    A token with the role write runs pipelines, and with them whatever the user of the server may do.

    \b
    Examples:
      etl token tokens.txt alice --role write
      export ETL_TOKEN=$(etl token tokens.txt dashboard)
    """
    from etl.server.tokens import new_token, token_line

    if not name.isprintable() or not name.strip():
        raise click.UsageError(f"{name!r} is not a name")
    token = new_token()
    line = token_line("write" if role == "write" else "read", token, name.strip())
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "a", encoding="utf-8") as target:
        target.write(line)
    click.echo(token)
