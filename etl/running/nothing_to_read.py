"""Sources that have nothing to read: at the start of a run, which may end it, and at its end if it read nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from etl.api import EtlError, Finding, Source
from etl.delivery.backoff import RunStopping
from etl.delivery.call_thread import CallThread
from etl.running.messages import Message, OnMessage
from etl.spark.run import PipelineRun


def warn_of_missing_input(run: PipelineRun, on_message: OnMessage, fed: Collection[str] = ()) -> None:
    """Report missing input, of sources that need no other host for that; not of those that are ``fed`` by pipelines that run
    before this one.

    Raises EtlError with --once for an input that is named and was never read, and RunStopping when the run stops.
    """
    consequence = "with --once this run does not wait for it" if run.mode.once else "this run waits for it"
    for name, source in run.plan.sources().items():
        if not source.probes_here or name in fed:
            continue
        for finding in CallThread(lambda: run.stopped).run(partial(_errors, source)):
            text = "; ".join([f"source {name!r}: {finding.message}", *([finding.hint] if finding.hint else [])])
            text += "" if text.endswith("?") else ";"
            if finding.code == "missing-input" and run.mode.once and name not in run.committed_offsets:
                raise EtlError(f"{text} a run without --once waits for it")
            on_message(Message("source", f"{text} {consequence}", "warning", run.plan.pipeline, {"source": name}))


def silent_sources(run: PipelineRun) -> Iterator[str]:
    """Lines about the sources of which a run read nothing; none if the run was stopped."""
    if run.stopped:
        return
    for name, source in run.plan.sources().items():
        counts = run.totals.read.get(name)
        if counts is None or not counts.incoming:
            yield f"  nothing was read of source {name!r}: {_cause(run, name, source)}"


def _errors(source: Source) -> list[Finding]:
    return [finding for finding in source.probe() if finding.severity == "error"]


def _cause(run: PipelineRun, name: str, source: Source) -> str:
    try:
        return CallThread(lambda: run.stopped).run(lambda: source.explain_no_events(run.committed_offsets.get(name)))
    except RunStopping:
        return "the run ended before the cause was known"
