"""A replay in a run of this process."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from etl.api import EtlError
from etl.cli.dead.letters import STOP_FIRST, Choose
from etl.cli.run.command import stop_on_signals
from etl.cli.run.progress import Progress
from etl.running.dead_letters.replay_run import Replay
from etl.running.messages import Message
from etl.running.shared_session import SharedSession

if TYPE_CHECKING:
    from etl.config.model import Pipeline
    from etl.running.service import RunService
    from etl.spark.state.folder import StateFolder


def run_replay(pipeline: Pipeline, state: StateFolder, choose: Choose, master: str, shared: SharedSession | None) -> None:
    """Take the letters and replay them. Raises EtlError for a part that fails or is stopped; the next replay finishes it."""
    begun = Replay.begin(pipeline, state, choose, STOP_FIRST)
    for note in begun.notes():
        click.echo(note, err=True)
    if begun.portions:
        _run(begun, master, shared)


def _run(begun: Replay, master: str, shared: SharedSession | None) -> None:
    """Run the portions one after the other."""
    progress = Progress("text", quiet=False, live=True)
    start = lambda: progress.say("starting", f"starting Spark ({master})")  # noqa: E731

    def work(service: RunService) -> None:
        with stop_on_signals(service, progress):
            service.work(lambda message: _report(progress, message), progress.show)

    with ExitStack() as stack:
        stack.callback(progress.close)
        session = shared or SharedSession("sluice", master, begun.state.spark_log, on_start=start)
        if shared is None:
            stack.callback(session.stop)
        if not begun.run(session, work, lambda message: progress.say(message.event, message.text)):
            raise EtlError("stopped: the next `etl dead replay` finishes this replay")


def _report(progress: Progress, message: Message) -> None:
    if message.event != "running":  # a replay has its own message
        progress.report(message)
