"""``etl serve``: a server over a folder of pipelines."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import FrameType

import click

from etl.api import EtlError
from etl.cli.config_options import load_environment
from etl.cli.run.command import AddressType, parse_settings
from etl.cli.run.progress import Progress

DEFAULT_LISTEN = "127.0.0.1:8321"

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--listen",
    type=AddressType(),
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="ADDR",
    help="A port of loopback, or host:port; beyond loopback only with --tokens.",
)
@click.option(
    "--tokens",
    type=_FILE,
    metavar="FILE",
    help="Only clients with a token of this file; `etl token` writes it.",
)
@click.option(
    "--tls-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="Certificate (PEM)."
)
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="Its key (PEM).")
@click.option(
    "--state", metavar="DIR", help="States of all pipelines; default $ETL_STATE/server or ~/.local/state/sluice/server."
)
@click.option("--master", default="local[*]", show_default=True, metavar="M", help="Spark's master: local[n] or a cluster's.")
@click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; may be repeated.")
@click.option("--env-file", metavar="F", type=click.Path(exists=True, dir_okay=False), help="NAME=value lines for ${NAME}.")
@click.option("--log-format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def command(
    folder: Path,
    listen: str,
    tokens: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    state: str | None,
    master: str,
    conf: tuple[str, ...],
    env_file: str | None,
    form: str,
    quiet: bool,
) -> None:
    """Run all pipelines of FOLDER in one Spark session, with an HTTP API.

    FOLDER has pipelines as NAMESPACE/NAME.yaml or .sql. A file that is put there, changed or removed is checked, then started,
    restarted on its state, or stopped after its micro-batch; one with problems is refused, and the version before goes on.
    Clients are `etl ps`, `status`, `deploy`, `start`, `stop`, `pause`, `restart`, `remove`, `rollback`, `logs`, `top`, `tap`.

    \b
    Examples:
      etl serve jobs
      etl token tokens.txt alice --role write
      etl serve jobs --listen 0.0.0.0:8321 --tokens tokens.txt --tls-cert cert.pem --tls-key key.pem
    """
    _require_extra()
    from etl.running.metrics_server import ListenAddress
    from etl.server.listening import Tls
    from etl.server.serving import ServeRequest, serve
    from etl.spark.state.folder import StateFolder

    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    request = ServeRequest(
        folder=folder,
        state=StateFolder.of("server", state).root,
        listen=ListenAddress.parse(listen),
        tokens=tokens,
        tls=Tls(tls_cert, tls_key) if tls_cert and tls_key else None,
        master=master,
        settings=parse_settings(conf),
        env=load_environment(env_file),
    )
    progress = Progress(form, quiet, live=False, several=True)
    serve(request, progress.report, _stop_on_signals(progress), lambda url: progress.say("ready", f"ready: {url}", url=url))
    progress.say("stopped", "stopped; pipelines go on from here when the server starts again")


def _stop_on_signals(progress: Progress) -> threading.Event:
    """An event that the first SIGINT or SIGTERM sets; a second one ends the process."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)  # the JVM ends when our pipe closes; the next server repeats what was not committed
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop


def _require_extra() -> None:
    """Raises EtlError without the packages of the server."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise EtlError(f"the server needs {error.name}: pip install 'sluice-etl[server]'") from error
