"""Reports that a source has nothing to read: when a run starts, and when it has ended and read nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from etl.api import Finding, Source
from etl.delivery.backoff import RunStopping
from etl.delivery.call_thread import CallThread
from etl.running.messages import Message, OnMessage
from etl.spark.run import PipelineRun


def warn_of_nothing(one: PipelineRun, on_message: OnMessage) -> None:
    """Report what is not there, for sources that know without asking another host. Raises RunStopping when the run is to end."""
    then = "with --once this run does not wait for it" if one.mode.once else "this run waits for it"
    for name, source in one.plan.sources().items():
        if not source.probes_here:
            continue
        found = CallThread(lambda: one.stopped).run(partial(_errors, source))
        for finding in found:
            said = "; ".join([finding.message, *([finding.hint] if finding.hint else []), then])
            on_message(Message("source", f"source {name!r}: {said}", "warning", one.plan.pipeline, {"source": name}))


def silent_sources(one: PipelineRun) -> Iterator[str]:
    """Lines about the sources of which a run that ended by itself read nothing."""
    if one.stopped:
        return
    for name, source in one.plan.sources().items():
        counts = one.totals.read.get(name)
        if counts is None or not counts.came:
            yield f"  nothing was read of source {name!r}: {_silence(one, name, source)}"


def _errors(source: Source) -> list[Finding]:
    return [finding for finding in source.probe() if finding.severity == "error"]


def _silence(one: PipelineRun, name: str, source: Source) -> str:
    try:
        return CallThread(lambda: one.stopped).run(lambda: source.silence(one.committed_offsets.get(name)))
    except RunStopping:
        return "the run ended before it was found out why"
