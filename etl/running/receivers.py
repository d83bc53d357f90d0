"""Receivers at work beside a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from etl.api import Receiver, ReceivingSource
from etl.running.messages import errors_named
from etl.spark.relay import working_for
from etl.spark.run import PipelineRun


@contextmanager
def receiving(runs: Sequence[PipelineRun], several: bool = False) -> Iterator[None]:
    """Receivers stop last: what they took is on disk. What they could not take is counted."""
    with ExitStack() as stack:
        for one in runs:
            for name, source in one.plan.sources().items():
                if isinstance(source, ReceivingSource):
                    one.state.received(name).mkdir(parents=True, exist_ok=True)
                    receiver = source.receiver()
                    with errors_named(one.plan.pipeline, several), working_for(one.plan.pipeline):
                        receiver.start()
                    stack.callback(_stop, one, name, receiver)
        yield


def _stop(one: PipelineRun, name: str, receiver: Receiver) -> None:
    receiver.stop()
    one.totals.dropped[name] = receiver.dropped()
