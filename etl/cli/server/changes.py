"""``etl deploy``, ``start``, ``stop``, ``pause``, ``restart``, ``rollback`` and ``remove``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from etl.api import EtlError
from etl.cli.config_options import ask
from etl.cli.server.connection import Connection, RefusedError
from etl.cli.server.local_runs import LocalRun
from etl.cli.server.reading import printable_lines
from etl.cli.server.targets import add_target_options, find, require_server

WAIT_SECONDS = 60.0
"""Seconds that a command waits for the pipeline to reach the desired state."""

_POLL_SECONDS = 0.2
_SETTLED = {
    "start": {"running", "ended", "failed"},
    "restart": {"running", "ended", "failed"},
    "stop": {"stopped"},
    "pause": {"paused"},
    "deploy": {"running", "ended", "failed", "stopped", "paused"},
}


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE…")
@click.option("--namespace", default="default", show_default=True, metavar="NAME", help="The namespace of the pipelines.")
@click.option("--name", metavar="NAME", help="The name of one pipeline; default that of its file.")
@add_target_options
def deploy(files: Sequence[Path], namespace: str, name: str | None, server: str | None, state: str | None) -> None:
    """Check pipeline files on a server, and run them there in place of the versions before.

    A file with problems is refused, and the version before goes on. The server reads ${NAME} and paths of the file where it
    runs.

    \b
    Examples:
      etl deploy ssh.yaml --namespace security
      etl deploy jobs/security/*.yaml --namespace security --server https://etl.example.org:8321
    """
    if name and len(files) > 1:
        raise click.UsageError("--name goes with one file")
    connection = require_server(server, state)
    failed = [file for file in files if not _deploy(connection, file, f"{namespace}/{name or file.stem}")]
    if failed:
        raise EtlError(f"{len(failed)} of {len(files)} {'file is' if len(files) == 1 else 'files are'} refused")


def _deploy(connection: Connection, file: Path, name: str) -> bool:
    from etl.cli.lint import print_text
    from etl.config.problems import Problem

    language = "sql" if file.suffix == ".sql" else "yaml"
    try:
        accepted = connection.pipeline("PUT", name, "", file.read_bytes(), language=language)
    except RefusedError as error:
        if error.problems:
            print_text([Problem(**{**problem, "file": str(file)}) for problem in error.problems], err=True)
        else:
            click.echo(f"{file}: {click.style('refused:', fg='red', bold=True)} {error}", err=True)
        return False
    shown = _wait(connection, name, "deploy", accepted["accepted_version"])
    _report(name, shown, f"version {shown['accepted_version']}, ")
    return shown["refused"] is None


def _wait(connection: Connection, name: str, verb: str, version: int | None = None) -> Any:
    """The pipeline when it has reached the desired state, has failed to, or after `WAIT_SECONDS`."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        shown = connection.pipeline("GET", name)
        is_new = version is None or shown["refused"] or shown["version"] in (version, None)
        if (shown["status"] in _SETTLED[verb] and is_new) or shown["status"] == "waiting" or time.monotonic() > until:
            return shown
        time.sleep(_POLL_SECONDS)


def _report(name: str, shown: Any, words: str = "") -> None:
    why = printable_lines(shown["error"] or (shown["refused"] and shown["refused"]["reason"]) or "")
    click.echo(f"{name}: {words}{shown['status']}{f': {why}' if why else ''}")


def _verb(verb: str, text: str) -> click.Command:
    """A command that changes the desired state."""

    @click.command(verb, help=text)
    @click.argument("name")
    @add_target_options
    def change(name: str, server: str | None, state: str | None) -> None:
        target = find(name, server, state)
        if isinstance(target, LocalRun):
            _change_local(target, verb)
            return
        target.pipeline("POST", name, verb)
        _report(name, _wait(target, name, verb))

    return change


def _change_local(run: LocalRun, verb: str) -> None:
    if verb != "stop":
        raise EtlError(f"{run.name} is a run of `etl run`, process {run.pid}, which can only be stopped: servers can {verb}")
    run.stop()
    click.echo(f"{run.name}: process {run.pid} stops after the current micro-batch")


start = _verb(
    "start",
    "Start a pipeline of a server; it goes on where it stopped. The server starts it again when it starts itself.\n\n"
    "\b\nExample:\n  etl start security/ssh",
)
stop = _verb(
    "stop",
    "Stop a pipeline after the current micro-batch. A server does not start it again before `etl start`. NAME may be that of a "
    "run on this machine, whose process then ends.\n\n\b\nExample:\n  etl stop security/ssh",
)
pause = _verb(
    "pause",
    "Stop reading after the current micro-batch; receivers of the pipeline, such as syslog, go on and keep what comes on disk. "
    "`etl start` goes on.\n\n\b\nExample:\n  etl pause security/ssh",
)
restart = _verb(
    "restart",
    "Stop a pipeline after the current micro-batch, and start it again on its state, with the values that ${NAME} have now.\n\n"
    "\b\nExample:\n  etl restart security/ssh",
)


@click.command()
@click.argument("name")
@click.option("--to", type=click.IntRange(min=1), metavar="N", help="The version; default the one before.")
@click.option("--list", "lists", is_flag=True, help="Only list the versions.")
@add_target_options
def rollback(name: str, to: int | None, lists: bool, server: str | None, state: str | None) -> None:
    """Run an earlier version of a pipeline again, as a new version; the server keeps the last 50.

    \b
    Examples:
      etl rollback security/ssh
      etl rollback security/ssh --list
      etl rollback security/ssh --to 3
    """
    connection = require_server(server, state)
    if lists:
        for one in connection.pipeline("GET", name, "versions", is_list=True):
            click.echo(f"{one['number']:>4}  {one['time']}  {one['language']}{'  running' if one['running'] else ''}")
        return
    accepted = connection.pipeline("POST", name, "rollback", to=to)
    shown = _wait(connection, name, "deploy", accepted["accepted_version"])
    _report(name, shown, f"version {shown['accepted_version']}, ")


@click.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@add_target_options
def remove(name: str, yes: bool, server: str | None, state: str | None) -> None:
    """Stop a pipeline of a server and remove its file. Its state and versions stay: deployed again, it goes on.

    \b
    Example:
      etl remove security/ssh
    """
    connection = require_server(server, state)
    if not yes:
        ask(f"Remove {name} from {connection.url}?", "nothing is removed")
    if connection.pipeline("DELETE", name) is not None:
        raise EtlError(f"what answers at {connection.url} is not a server of etl: it has removed nothing of this name")
    click.echo(f"{name}: removed")
