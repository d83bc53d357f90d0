"""``etl run``: runs pipelines until they end or a signal stops them."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import click

from etl.api import NOTICE
from etl.cli.config_options import PipelineFile, add_config_options, load_environment
from etl.cli.run.dead_letter_share import ShareType
from etl.cli.run.end_of_run import fail_for_dead_letters, print_dead_letters, print_spooled, print_totals
from etl.cli.run.pipeline_files import choose_files, load_pipelines
from etl.cli.run.progress import Progress
from etl.config.model import Pipeline
from etl.running.otlp import OtlpSettings
from etl.running.planning import RunRequest
from etl.running.service import RunService
from etl.running.shared_session import SharedSession
from etl.spark.masters import MASTER, is_local
from etl.spark.run import PipelineRun

EXAMPLES = """
\b
Examples:
  etl run ssh.yaml                      follow, until Ctrl-C
  etl run ssh.yaml --once               the events that exist now, then end
  etl run a.yaml b.yaml                 two pipelines in one Spark session
  etl run pipelines                     every pipeline of a folder
  cat auth.log | etl run stdin.yaml     lines of a pipe
  etl run ssh.yaml --set sources.auth.path=/tmp/auth.log --state /tmp/try
"""


class AddressType(click.ParamType[str]):
    """A port, or host:port."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, which is an address."""
        from etl.running.metrics_server import ListenAddress

        try:
            ListenAddress.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


@click.command("run", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, type=PipelineFile(), metavar="FILE…")
@click.option("--once", is_flag=True, help="Read the events that exist now, then end.")
@click.option(
    "--drain", is_flag=True, help="With --once: close all open windows at the end, as if no further event could arrive."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after N events were read.")
@click.option(
    "--max-dead",
    type=ShareType(),
    metavar="SHARE",
    help="End with exit code 1 when more than this share of the events become dead letters: 0.1, or 10%.",
)
@click.option("--state", metavar="DIR", help="Checkpoints and dead letters; default $ETL_STATE or ~/.local/state/sluice.")
@click.option(
    "--new-state",
    multiple=True,
    metavar="STEP",
    help="A step that begins with empty state, as after a change that its state does not fit, or one that is gone from the "
    "pipeline, whose state is dropped; may be repeated.",
)
@click.option(
    "--listen",
    type=AddressType(),
    metavar="ADDR",
    help="Answer /metrics, /health and /ready over HTTP: a port of loopback, or host:port.",
)
@click.option("--master", default="local[*]", show_default=True, metavar="M", help="Spark's master: local[n] or a cluster's.")
@click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; may be repeated.")
@click.option("--environment", metavar="FILE", help="For a cluster: the packages of `etl package`, sent to the executors.")
@add_config_options
@click.option("--log-format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--require-healthy", is_flag=True, help="Fail when a source or sink is down, where a run would wait for it.")
@click.option("-v", "--verbose", is_flag=True, help="Print more.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def command(
    paths: tuple[Path, ...],
    overrides: tuple[str, ...],
    env_file: str | None,
    conf: tuple[str, ...],
    environment: str | None,
    require_healthy: bool,
    form: str,
    verbose: bool,
    quiet: bool,
    **rest: Any,
) -> None:
    """Run pipelines: follow their sources, or with --once read the events that exist now.

    FILE is a pipeline file, a recipe, or a folder, of which all pipelines run. Several run in one Spark session, each with
    a state folder of its own: below --state, one named after each pipeline. One that fails starts again after growing waits,
    while the others go on.

    SIGINT or SIGTERM ends the run after the current micro-batch; a second one at once. Nothing is lost either way:
    the next run goes on where this one stopped.
    """
    settings = parse_settings(conf)
    if environment is not None:
        from etl.running.environment_archive import cluster_settings

        if is_local(rest["master"]):
            raise click.UsageError("--environment goes with the --master of a cluster")
        settings = {**cluster_settings(environment), **settings}
    request = RunRequest(
        settings=settings, log_level=logging.INFO if verbose else NOTICE, otlp=OtlpSettings.of(os.environ), **rest
    )
    if request.drain and not request.once:
        raise click.UsageError("--drain goes with --once")
    pipelines = load_pipelines(choose_files(paths), load_environment(env_file), overrides)
    if not pipelines:
        return
    if require_healthy:
        _require_healthy(pipelines, env_file, overrides)
    several = len(pipelines) > 1 or any(path.is_dir() for path in paths)
    if several and request.new_state:
        raise click.UsageError("--new-state goes with one pipeline file")
    run(pipelines, request, Output(form, quiet, verbose), several, click.get_current_context().find_object(SharedSession))


class Output(NamedTuple):
    """How a run prints."""

    form: str = "text"
    """``text`` or ``json``."""
    quiet: bool = False
    verbose: bool = False


def _require_healthy(pipelines: Sequence[Pipeline], env_file: str | None, overrides: Sequence[str]) -> None:
    """Raise ConfigError with the findings of the pipelines' probes."""
    from etl.cli.connect import probe_pipeline
    from etl.config.problems import ConfigError

    problems = [found for one in pipelines for found in probe_pipeline(one, load_environment(env_file), overrides)]
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(problems)


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.UsageError(f"--conf takes NAME=VALUE, not {pair!r}")
    return dict(pair.split("=", 1) for pair in pairs)


def run(
    pipelines: Sequence[Pipeline],
    request: RunRequest,
    output: Output,
    several: bool = False,
    shared: SharedSession | None = None,
) -> None:
    """Run pipelines, print messages and totals. Raises EtlError for the first failure. ``several``: messages and state folders
    are named after the pipelines. ``shared``: the session to run on; else the run starts Spark."""
    began = time.monotonic()
    if not MASTER.fullmatch(request.master):
        raise click.UsageError(
            f"{request.master!r} is not a master; masters are local, local[2], local[*], spark://host:7077, yarn, k8s://…"
        )
    service = RunService(pipelines, request, several=several, shared=shared)
    live = not (sys.stdout.isatty() and any(_writes_to_console(one) for one in service.runs))
    progress = Progress(output.form, output.quiet, live, several=several)
    with ExitStack() as stack:
        stack.callback(progress.close)
        stack.enter_context(stop_on_signals(service, progress))
        service.work(progress.report, progress.show)

    print_totals(service.runs, progress, time.monotonic() - began, output.verbose)
    print_dead_letters(service.runs, service.shares, progress)
    print_spooled(service.runs, progress, several)
    fail_for_dead_letters(service.runs, service.shares, request, several)


@contextmanager
def stop_on_signals(service: RunService, progress: Progress) -> Iterator[None]:
    """Stop the run after the micro-batch on the first SIGINT or SIGTERM, and end the process on the second."""
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if received:
            os._exit(128 + number)  # the JVM ends when our pipe closes; the next run repeats what was not committed
        received.append(number)
        progress.say("stopping", "stopping after the current micro-batch; again to stop at once")
        service.stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _writes_to_console(one: PipelineRun) -> bool:
    return any(output.sink.type == "console" for query in one.plan.queries for output in query.segment.outputs.values())
