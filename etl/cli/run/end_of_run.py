"""Messages at the end of a run: totals, dead letters, spooled events; and whether the command fails."""

from __future__ import annotations

from collections.abc import Sequence

from etl.api import EtlError
from etl.cli.run.dead_letter_share import summarize_dead_letters
from etl.cli.run.progress import Progress
from etl.cli.run.summary import format_summary
from etl.running.dead_letter_share import DeadLetterShare
from etl.running.messages import count, name_errors
from etl.running.nothing_to_read import silent_sources
from etl.running.planning import RunRequest
from etl.spark.run import PipelineRun


def print_totals(runs: Sequence[PipelineRun], progress: Progress, whole: float, verbose: bool) -> None:
    """Print the totals of each pipeline; ``whole`` is the duration of the command in seconds."""
    for one in runs:
        lines = "\n".join([*format_summary(one.plan, one.totals, verbose), *silent_sources(one)])
        progress.say(
            "done",
            lines,
            pipeline=one.plan.pipeline,
            named=True,
            seconds=round(whole, 2),
            work_seconds=round(one.totals.seconds, 3),
            **one.totals.as_numbers(),
        )


def print_dead_letters(runs: Sequence[PipelineRun], shares: Sequence[DeadLetterShare], progress: Progress) -> None:
    """Print a warning for each pipeline of which a tenth of the events or more became dead letters."""
    for one, share in zip(runs, shares, strict=True):
        share.check_end()
        lines = list(summarize_dead_letters(share, one))
        if lines:
            progress.say("dead_letters", "\n".join(lines), "warning", one.plan.pipeline, share=round(share.share, 4))


def fail_for_dead_letters(
    runs: Sequence[PipelineRun], shares: Sequence[DeadLetterShare], request: RunRequest, several: bool
) -> None:
    """Raises EtlError when more events became dead letters than ``--max-dead`` allows."""
    for one, share in zip(runs, shares, strict=True):
        if share.exceeded:
            with name_errors(one.plan.pipeline, several):
                raise EtlError(
                    f"{share.description}, more than --max-dead {request.max_dead:g} allows; the next run continues after them: "
                    "correct the pipeline, and read them again with another --state or from the dead letters"
                )


def print_spooled(runs: Sequence[PipelineRun], progress: Progress, several: bool) -> None:
    """Report events in a spool. Raises EtlError, except for a run that a signal stopped."""
    waiting = [
        f"{count(events)} events for sink {name!r}{f' of pipeline {one.plan.pipeline!r}' if several else ''}"
        for one in runs
        for name, events in one.spooled.items()
    ]
    if waiting:
        text = f"{', '.join(waiting)} wait in the spool; nothing is lost: the next run delivers them"
        if not any(one.stopped for one in runs):
            raise EtlError(text)
        progress.say("spooled", text, "warning")
