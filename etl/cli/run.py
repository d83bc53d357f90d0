"""``etl run``: pipelines at work, until they end or are told to."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import click

from etl.api import FrameSource, ReceivingSource, Sink, Source
from etl.catalogue import installed
from etl.cli.configured import PipelineFile, configured, environment
from etl.cli.progress import Progress
from etl.cli.summary import summary
from etl.config.loader import load
from etl.config.model import Pipeline
from etl.delivery.dead_letters import SCHEMA
from etl.lean import forbid
from etl.plan.model import Segment, segments
from etl.plan.planner import plan as planned
from etl.segment import warming
from etl.spark import cluster
from etl.spark import session as spark
from etl.spark.run import Mode, Run
from etl.spark.state import State


@dataclass(frozen=True)
class Options:
    """What the command line says about all pipelines of a run."""

    once: bool
    drain: bool
    limit: int | None
    state: str | None
    master: str
    conf: Mapping[str, str]
    form: str
    quiet: bool
    verbose: bool


EXAMPLES = """
\b
Examples:
  etl run ssh.yaml                      follow, until Ctrl-C
  etl run ssh.yaml --once               what is there now, then end
  etl run a.yaml b.yaml                 two pipelines in one Spark session
  cat auth.log | etl run stdin.yaml     lines of a pipe
  etl run ssh.yaml --set sources.auth.path=/tmp/auth.log --state /tmp/try
"""


@click.command("run", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=PipelineFile(), metavar="FILE…")
@click.option("--once", is_flag=True, help="Read what is there now, then end.")
@click.option("--drain", is_flag=True, help="With --once: close all open windows at the end, as if no event were to come.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after N events were read.")
@click.option("--state", metavar="DIR", help="Checkpoints and dead letters; default $ETL_STATE or ~/.local/state/sluice.")
@click.option("--master", default="local[*]", show_default=True, metavar="M", help="Spark's master: local[n] or a cluster's.")
@click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; may be repeated.")
@configured
@click.option("--log-format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Say more.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], env_file: str | None, conf: tuple[str, ...], **rest: Any
) -> None:
    """Run pipelines: follow their sources, or read what is there with --once.

    SIGINT or SIGTERM ends the run after the micro-batch at work; a second one at once. Nothing is lost either way:
    the next run goes on where this one stopped.
    """
    options = Options(conf=_settings(conf), **rest)
    if options.drain and not options.once:
        raise click.UsageError("--drain goes with --once")
    pipelines = [load(file, environment(env_file), overrides) for file in files]
    names = [pipeline.name for pipeline in pipelines]
    if len(set(names)) < len(names):
        raise click.UsageError(f"pipelines of one run need different names, and these are {', '.join(names)}")
    run(pipelines, options)


def _settings(pairs: Sequence[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.UsageError(f"--conf takes NAME=VALUE, not {pair!r}")
    return dict(pair.split("=", 1) for pair in pairs)


def run(pipelines: Sequence[Pipeline], options: Options) -> None:
    """Prepare everything, start Spark, work, sum up. Raises EtlError for the first failure."""
    began = time.monotonic()
    if not spark.MASTER.fullmatch(options.master):
        raise click.UsageError(
            f"{options.master!r} is no master; masters are local, local[2], local[*], spark://host:7077, yarn, k8s://…"
        )
    master = spark.local_master(options.master)
    several = len(pipelines) > 1
    runs = [planned_run(pipeline, options, master, pipeline.name if several else "") for pipeline in pipelines]
    live = not (sys.stdout.isatty() and any(_prints(r) for r in runs))
    progress = Progress(options.form, options.quiet, live)
    with ExitStack() as stack:
        stack.callback(progress.close)
        commits = [stack.enter_context(one.prepared()) for one in runs]
        stack.enter_context(_receiving(runs))
        for note in (note for one in runs for note in one.notes):
            progress.say("note", f"note: {note}", "warning")
        if all(query.frame is None for one in runs for query in one.plan.queries):
            forbid("pandas")
        progress.say("starting", f"starting Spark ({master})", master=master)
        compiler = warming.begin(_segments(runs)) if spark.is_local(master) else None
        if compiler is not None:
            progress.say("compiling", "compiling for this CPU, once: the first events come up to ten seconds later")
        log = runs[0].state.spark_log
        session = spark.start("sluice", master, options.conf, log)
        stack.callback(session.stop)
        if compiler is not None:
            compiler.wait()  # workers that start before it ends would compile the same
        spark.warm(session, spark.cores(master) if spark.is_local(master) else 1)
        stack.enter_context(_signals(runs, progress))  # behind the session, which installs handlers of its own
        stack.enter_context(_relayed(log, progress, options))
        progress.say("running", f"running {', '.join(one.plan.pipeline for one in runs)}: {_how(options)}", log=str(log))
        _work(runs, commits, session, progress)
    _sum_up(runs, progress, time.monotonic() - began)


def _segments(runs: Sequence[Run]) -> Iterator[Segment]:
    for query in (query for one in runs for query in one.plan.queries):
        yield query.segment
        yield from (segment for segment, _ in segments(query.frame))


def planned_run(pipeline: Pipeline, options: Options, master: str, folder: str = "") -> Run:
    """A pipeline with its plan, state and mode; ``folder`` is below ``--state``. Starts and writes nothing."""
    state = State.of(pipeline.name, options.state and str(Path(options.state.removeprefix(cluster.SHARED)) / folder))
    pipeline = replace(pipeline, sources={name: _placed(s, state, name) for name, s in pipeline.sources.items()})
    closes = any(isinstance(source, ReceivingSource) and source.closes for source in pipeline.sources.values())
    mode = Mode(
        options.once and not closes,  # what comes over a pipe is there when the pipe ends
        options.drain,
        options.limit,
        round(pipeline.run.trigger.total_seconds() * 1000),
        pipeline.run.max_batch_bytes,
        pipeline.run.parallelism or spark.cores(master),
    )
    plan = planned(pipeline, dead_letters(pipeline, state), SCHEMA)
    if not spark.is_local(master):
        cluster.check(plan, options.state)
    return Run(plan, state, mode)


def _placed(source: Source | FrameSource, state: State, name: str) -> Source | FrameSource:
    return source.placed(str(state.received(name))) if isinstance(source, ReceivingSource) else source


def dead_letters(pipeline: Pipeline, state: State) -> Sink:
    """The pipeline's sink for rejected events, else a file in its state folder."""
    if pipeline.dead_letters is not None:
        return pipeline.dead_letters
    sink = installed().families["sink"]["file"].model_validate({"type": "file", "path": str(state.dead_letters)})
    assert isinstance(sink, Sink)
    return sink


def _prints(one: Run) -> bool:
    return any(output.sink.type == "console" for query in one.plan.queries for output in query.segment.outputs.values())


def _how(options: Options) -> str:
    if options.once:
        return "reading what is there"
    return "following; Ctrl-C ends it after the micro-batch at work"


def _work(runs: Sequence[Run], commits: Sequence[Any], session: Any, progress: Progress) -> None:
    failures: list[BaseException] = []
    totals = {one.plan.pipeline: one.totals for one in runs}

    def work(one: Run, commit: Any) -> None:
        try:
            one.work(session, commit)
        except BaseException as error:
            failures.append(error)
            for other in runs:
                other.stop()

    threads = [threading.Thread(target=work, args=pair) for pair in zip(runs, commits, strict=True)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        progress.show(totals)
        time.sleep(0.2)
    for further in failures[1:]:
        progress.say("failed", f"error: {further}", "error")
    if failures:
        raise failures[0]


def _sum_up(runs: Sequence[Run], progress: Progress, whole: float) -> None:
    for one in runs:
        lines = "\n".join(summary(one.plan, one.totals))
        progress.say(
            "done",
            lines,
            pipeline=one.plan.pipeline,
            seconds=round(whole, 2),
            work_seconds=round(one.totals.seconds, 3),
            **one.totals.as_numbers(),
        )


@contextmanager
def _signals(runs: Sequence[Run], progress: Progress) -> Iterator[None]:
    """First signal: end after the micro-batch. Second: at once."""
    seen: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if seen:
            os._exit(128 + number)  # the JVM ends with our pipe; what was not committed is done again by the next run
        seen.append(number)
        progress.say("stopping", "stopping after the micro-batch at work; again to stop at once")
        for one in runs:
            one.stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _relayed(log: Path, progress: Progress, options: Options) -> Iterator[None]:
    """Show what components say in workers, out of the log that Spark's processes write."""
    from etl.spark.relay import follow

    level = logging.INFO if options.verbose else logging.WARNING
    say: Callable[[str, str], None] = lambda kind, text: progress.say("component", text, kind)  # noqa: E731
    with follow(log, level, say):
        yield


@contextmanager
def _receiving(runs: Sequence[Run]) -> Iterator[None]:
    """Receivers stop last: what they took is on disk."""
    with ExitStack() as stack:
        for one in runs:
            for name, source in one.plan.sources().items():
                if isinstance(source, ReceivingSource):
                    one.state.received(name).mkdir(parents=True, exist_ok=True)
                    receiver = source.receiver()
                    receiver.start()
                    stack.callback(receiver.stop)
        yield
