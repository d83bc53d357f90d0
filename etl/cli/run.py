"""``etl run``: pipelines at work, until they end or are told to."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from etl.api import NOTICE, EtlError
from etl.cli.configured import PipelineFile, configured, environment
from etl.cli.dead_share import DeadShare, Share
from etl.cli.endings import end_for_dead_letters, say_what_died, say_what_waits, sum_up
from etl.cli.metrics import MetricsFile
from etl.cli.nothing_to_read import warn_of_nothing
from etl.cli.planned import Options, planned_run
from etl.cli.progress import Progress
from etl.cli.receiving import receiving
from etl.cli.several import chosen_files, errors_named, load_all
from etl.cli.signals import signals
from etl.config.model import Pipeline
from etl.delivery.backoff import RunStopping
from etl.file_modes import private_files
from etl.lean import forbid
from etl.plan.model import Segment, segments
from etl.segment import kernel_warmup, preopened_steps
from etl.spark import run_tables
from etl.spark import session as spark
from etl.spark.errors import jvm_gone
from etl.spark.limits import allow_files
from etl.spark.masters import check_reachable
from etl.spark.relay import Ear, follow, listening, working_for
from etl.spark.run import PipelineRun
from etl.spark.streams import Turns
from etl.steps.lookup import tables_of

EXAMPLES = """
\b
Examples:
  etl run ssh.yaml                      follow, until Ctrl-C
  etl run ssh.yaml --once               what is there now, then end
  etl run a.yaml b.yaml                 two pipelines in one Spark session
  etl run pipelines                     every pipeline of a folder
  cat auth.log | etl run stdin.yaml     lines of a pipe
  etl run ssh.yaml --set sources.auth.path=/tmp/auth.log --state /tmp/try
"""


@click.command("run", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, type=PipelineFile(), metavar="FILE…")
@click.option("--once", is_flag=True, help="Read what is there now, then end.")
@click.option("--drain", is_flag=True, help="With --once: close all open windows at the end, as if no event were to come.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after N events were read.")
@click.option(
    "--max-dead",
    type=Share(),
    metavar="SHARE",
    help="End with exit code 1 when more than this share of the events become dead letters: 0.1, or 10%.",
)
@click.option("--state", metavar="DIR", help="Checkpoints and dead letters; default $ETL_STATE or ~/.local/state/sluice.")
@click.option("--master", default="local[*]", show_default=True, metavar="M", help="Spark's master: local[n] or a cluster's.")
@click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; may be repeated.")
@configured
@click.option("--log-format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--require-healthy", is_flag=True, help="Fail when a source or sink is down, where a run would wait for it.")
@click.option("-v", "--verbose", is_flag=True, help="Say more.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def command(
    paths: tuple[Path, ...],
    overrides: tuple[str, ...],
    env_file: str | None,
    conf: tuple[str, ...],
    require_healthy: bool,
    **rest: Any,
) -> None:
    """Run pipelines: follow their sources, or read what is there with --once.

    FILE is a pipeline file, a recipe, or a folder, of which all pipelines run. Several run in one Spark session, each with
    a state folder of its own: below --state, one named after each pipeline. When one fails, the others end after their
    micro-batch.

    SIGINT or SIGTERM ends the run after the micro-batch at work; a second one at once. Nothing is lost either way:
    the next run goes on where this one stopped.
    """
    options = Options(conf=_settings(conf), **rest)
    if options.drain and not options.once:
        raise click.UsageError("--drain goes with --once")
    pipelines = load_all(chosen_files(paths), environment(env_file), overrides)
    if require_healthy:
        _require_healthy(pipelines, env_file, overrides)
    run(pipelines, options, several=len(pipelines) > 1 or any(path.is_dir() for path in paths))


def _require_healthy(pipelines: Sequence[Pipeline], env_file: str | None, overrides: Sequence[str]) -> None:
    """Raises ConfigError with what the pipelines' systems say is wrong."""
    from etl.cli.connect import probed
    from etl.config.problems import ConfigError

    problems = [found for one in pipelines for found in probed(one, environment(env_file), overrides)]
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(problems)


def _settings(pairs: Sequence[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.UsageError(f"--conf takes NAME=VALUE, not {pair!r}")
    return dict(pair.split("=", 1) for pair in pairs)


def run(pipelines: Sequence[Pipeline], options: Options, several: bool = False) -> None:
    """Prepare everything, start Spark, work, sum up. Raises EtlError for the first failure. ``several``: messages and state
    folders are named after the pipelines."""
    began = time.monotonic()
    if not spark.MASTER.fullmatch(options.master):
        raise click.UsageError(
            f"{options.master!r} is no master; masters are local, local[2], local[*], spark://host:7077, yarn, k8s://…"
        )
    check_reachable(options.master)
    master = spark.local_master(options.master)
    runs = []
    for pipeline in pipelines:
        with errors_named(pipeline.name, several):
            runs.append(planned_run(pipeline, options, master, several))
    allow_files(sum(len(one.plan.queries) for one in runs))
    turns = Turns(max(spark.cores(master) if spark.is_local(master) else 1, *(one.mode.parallelism for one in runs)))
    for one in runs:
        one.turns = turns
    shares = [DeadShare(one, options.max_dead) for one in runs]
    live = not (sys.stdout.isatty() and any(_prints(r) for r in runs))
    progress = Progress(options.form, options.quiet, live, several=several)
    with ExitStack() as stack:
        stack.enter_context(private_files())
        stack.callback(progress.close)
        level = logging.INFO if options.verbose else NOTICE
        ear = Ear(level, lambda kind, text, pipeline: progress.say("component", text, kind, pipeline))
        stack.enter_context(listening(ear))
        stack.enter_context(signals(runs, progress))
        try:
            _prepared(runs, options, master, progress, ear, stack, shares)
        except RunStopping as error:
            progress.say("stopped", str(error))
    sum_up(runs, progress, time.monotonic() - began, options.verbose)
    say_what_died(runs, shares, progress)
    say_what_waits(runs, progress, several)
    end_for_dead_letters(runs, shares, options, several)


def _prepared(
    runs: Sequence[PipelineRun],
    options: Options,
    master: str,
    progress: Progress,
    ear: Ear,
    stack: ExitStack,
    shares: Sequence[DeadShare],
) -> None:
    """Everything that must be there before the queries; then they work."""
    commits = []
    for one in runs:
        with errors_named(one.plan.pipeline, progress.several), working_for(one.plan.pipeline):
            commits.append(stack.enter_context(one.prepared()))
    stack.enter_context(receiving(runs, progress.several))
    for one in runs:
        for note in one.notes:
            progress.say("note", f"note: {note}", "warning", one.plan.pipeline)
        warn_of_nothing(one, progress)
    if all(query.frame is None for one in runs for query in one.plan.queries):
        forbid("pandas")
    progress.say("starting", f"starting Spark ({master})", master=master)
    for one in runs:
        looking = [
            node.step for segment in _segments([one]) for node in kernel_warmup.step_nodes(segment) if node.step.named_tables()
        ]
        wanted = tables_of(looking) if looking else {}  # what reads tables loads the compiler of kernels
        say = partial(_say_of_table, progress, one.plan.pipeline)
        with errors_named(one.plan.pipeline, progress.several):
            stack.enter_context(run_tables.refreshed_tables(wanted, one.state.tables, not options.once, say, one.totals.tables))
    compiler = kernel_warmup.start_compiling(_segments(runs)) if spark.is_local(master) else None
    if compiler is not None:
        progress.say("compiling", "compiling for this CPU, once: the first events come up to ten seconds later")
        stack.callback(compiler.wait)
    log = runs[0].state.spark_log
    segments_by_pipeline = ((one.plan.pipeline, segment) for one in runs for segment in _segments([one]))
    preopened_steps.save_steps_to_open(segments_by_pipeline if compiler is None else (), log.with_name("open-first.pickle"))
    session = _session(master, options, log, compiler is None, progress)
    stack.callback(spark.stop, session)
    if compiler is not None:
        compiler.wait()  # workers that start before it ends would compile the same
    if any(one.stopped for one in runs):
        return
    spark.warm(session, spark.cores(master) if spark.is_local(master) else 1)
    stack.enter_context(follow(log, ear))
    progress.say("running", f"running {', '.join(one.plan.pipeline for one in runs)}: {_how(options)}", log=str(log))
    _work(runs, commits, session, progress, shares)


def _say_of_table(progress: Progress, pipeline: str, kind: str, text: str) -> None:
    progress.say("table", text, kind, pipeline)


def _segments(runs: Sequence[PipelineRun]) -> Iterator[Segment]:
    for query in (query for one in runs for query in one.plan.queries):
        yield query.segment
        yield from (segment for segment, _ in segments(query.frame))


def _session(master: str, options: Options, log: Path, compiled: bool, progress: Progress) -> Any:
    """Started in a thread of its own: Spark then leaves this one's signals to us."""
    from concurrent.futures import ThreadPoolExecutor, wait

    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(spark.start, "sluice", master, options.conf, log, compiled)
        with suppress(ModuleNotFoundError):  # forbidden where no query needs it; else its first micro-batch would load it
            import_module("pandas")
        if not spark.is_local(master) and not wait([session], MASTER_SECONDS).done:
            text = f"Spark's master {master} has not taken the application for {MASTER_SECONDS:g} s; Spark tries for a minute"
            progress.say("starting", text, "warning", master=master)
        return session.result()


MASTER_SECONDS = 10.0
"""How long Spark may take to start on a cluster before that is said."""


def _prints(one: PipelineRun) -> bool:
    return any(output.sink.type == "console" for query in one.plan.queries for output in query.segment.outputs.values())


def _how(options: Options) -> str:
    if options.once:
        return "reading what is there"
    return "following; Ctrl-C ends it after the micro-batch at work"


def _work(
    runs: Sequence[PipelineRun], commits: Sequence[Any], session: Any, progress: Progress, shares: Sequence[DeadShare]
) -> None:
    failures: list[tuple[PipelineRun, BaseException]] = []
    totals = {one.plan.pipeline: one.totals for one in runs}
    files = [MetricsFile(one.state.metrics, one.plan.pipeline, one.totals) for one in runs]

    def work(one: PipelineRun, commit: Any) -> None:
        try:
            one.work(session, commit)
        except BaseException as error:
            failures.append((one, error))
            for other in runs:
                other.stop()

    threads = [threading.Thread(target=work, args=pair) for pair in zip(runs, commits, strict=True)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        progress.show(totals)
        for share in shares:
            share.look(progress)
        if any(share.exceeded for share in shares):
            for one in runs:
                one.stop()
        for file in files:
            file.keep()
        time.sleep(0.2)
    for file in files:
        file.write()
    if failures and (gone := _jvm_gone(session, failures[0][1], runs[0].state.spark_log)):
        raise gone from failures[0][1]
    for one, error in failures[1:]:
        progress.say("failed", f"error: {error}", "error", one.plan.pipeline)
    for one, error in failures[:1]:
        with errors_named(one.plan.pipeline, progress.several):
            raise error


def _jvm_gone(session: Any, error: BaseException, log: Path) -> EtlError | None:
    """What to say when the error comes from a JVM that is no more."""
    broken = isinstance(error, OSError) or "py4j" in type(error).__module__
    status = spark.jvm_status(session, spark.GONE_SECONDS if broken else 0.0)
    return None if status is None else jvm_gone(status, log)
