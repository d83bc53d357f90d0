"""Which server, or which run on this machine, a client command is about."""

from __future__ import annotations

import os

import click

from etl.api import EtlError, nearest
from etl.cli.config_options import F
from etl.cli.server.connection import SERVER, Connection
from etl.cli.server.local_runs import LocalRun, local_runs, local_servers, states


def add_target_options(command: F) -> F:
    """The options ``--server`` and ``--state``."""
    server = click.option(
        "--server", metavar="URL", help="The server; default $ETL_SERVER, else one on this machine. Its token: $ETL_TOKEN."
    )
    state = click.option("--state", metavar="DIR", help="The state folder of a run, or of the server, on this machine.")
    return server(state(command))


def find_server(server: str | None, state: str | None) -> Connection | None:
    """The server that is named, or the only one on this machine; None if there is none."""
    if server or (not state and os.environ.get(SERVER)):
        return Connection.of(server or os.environ[SERVER])
    found = local_servers(states(state))
    if len(found) > 1:
        raise EtlError(f"several servers run here, at {', '.join(one.url for one in found)}: choose one with --server")
    return found[0] if found else None


def require_server(server: str | None, state: str | None) -> Connection:
    """The server. Raises EtlError if there is none."""
    found = find_server(server, state)
    if found is None:
        raise EtlError(f"no server runs with a state folder in {states(state)}: start one with `etl serve`, or give --server URL")
    return found


def find(name: str, server: str | None, state: str | None) -> Connection | LocalRun:
    """The run of that name on this machine, else the server. Raises EtlError if there is neither."""
    if not server and "/" not in name and not (os.environ.get(SERVER) and not state):
        runs = {run.name: run for run in local_runs(states(state))}
        if name in runs:
            return runs[name]
        found = find_server(server, state)
        if found is None:
            hint = nearest(name, runs) or (f"running: {', '.join(runs)}" if runs else "nothing runs")
            raise EtlError(f"no run called {name!r} has its state folder in {states(state)}, and no server runs there; {hint}")
        return found
    return require_server(server, state)
