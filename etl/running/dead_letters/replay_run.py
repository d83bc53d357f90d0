"""A replay from its begin to its end, in a session that runs already or is started for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import pyarrow as pa

from etl.config.model import Pipeline
from etl.running.dead_letters.letter_files import letter_files
from etl.running.dead_letters.replay import (
    ReplayPart,
    TakenLetters,
    end_portion,
    only_replay,
    open_portions,
    service_of,
    take_letters,
)
from etl.running.messages import Message, count
from etl.running.service import RunService
from etl.running.shared_session import SharedSession
from etl.running.state_folders import dead_letters
from etl.spark.reports.totals import Totals
from etl.spark.state.folder import StateFolder, lock_state

Choose = Callable[[pa.RecordBatch], pa.RecordBatch]
Work = Callable[[RunService], None]
"""Runs a portion to its end. Raises EtlError if it fails."""


@dataclass(frozen=True)
class Replay:
    """Letters that were taken and are to be replayed, with those of earlier replays that have not ended."""

    pipeline: Pipeline
    state: StateFolder
    unfinished: int
    """Letters of earlier replays."""
    taken: TakenLetters
    portions: Sequence[ReplayPart]

    @staticmethod
    def begin(pipeline: Pipeline, state: StateFolder, choose: Choose, hint: str) -> Replay:
        """Take the open letters that ``choose`` keeps; from now on they are settled. Raises EtlError, with ``hint`` when a run of
        the pipeline is alive."""
        with lock_state(state, hint):
            before = list(open_portions(pipeline, state))
            taken = take_letters(pipeline, state, letter_files(dead_letters(pipeline, state)), choose)
            portions = list(open_portions(pipeline, state))
        return Replay(pipeline, state, sum(one.letters for one in before), taken, portions)

    def notes(self) -> Iterator[str]:
        """What the user must know before the replay runs."""
        if self.unfinished:
            yield f"finishing an earlier replay of {self.unfinished:,} letters"
        for at, (reason, events) in self.taken.refused.items():
            yield f"{events:,} of {at} stay: {reason}"
        for portion in self.portions:
            for step in portion.entry.left_out:
                yield f"{portion.entry.at}: the events do not reach {step}, which keeps state"
        if not self.portions:
            yield "no dead letters are replayed"

    def run(self, session: SharedSession, work: Work, report: Callable[[Message], None]) -> bool:
        """Run the portions one after the other; returns False if one was stopped, which the next replay finishes. Raises EtlError
        of one that fails, or if another replay of the pipeline is going on."""
        with only_replay(self.state) if self.portions else nullcontext():
            return self._run(session, work, report)

    def _run(self, session: SharedSession, work: Work, report: Callable[[Message], None]) -> bool:
        for portion in self.portions:
            if portion.has_ended:  # in another replay, which began after this one was planned
                continue
            report(Message("replaying", f"replaying {count(portion.letters)} of {portion.entry.at}", pipeline=self.pipeline.name))
            service = service_of(portion, self.pipeline, self.state, session)
            work(service)
            if service.runs[0].stopped:
                return False
            end_portion(portion)
            report(Message("replayed", _summary(portion, service.runs[0].totals), pipeline=self.pipeline.name))
        return True


def _summary(portion: ReplayPart, totals: Totals) -> str:
    """``sink archive: 14 letters replayed: archive 12 out, 0 filtered, 2 dead``."""
    sinks = "; ".join(
        f"{name} {count(sink.accepted)} out, {count(sink.filtered)} filtered, {count(sink.dead)} dead"
        for name, sink in totals.sinks.items()
    )
    return f"{portion.entry.at}: {count(portion.letters)} replayed: {sinks or 'all delivered before'}"
