"""Requests of users to settle dead letters of a pipeline: they are replayed or dropped while the pipeline does not run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

from etl.api import EtlError
from etl.running.dead_letters.letter_filter import NO_LETTERS, LetterFilter
from etl.running.dead_letters.replay import count_open_letters
from etl.running.messages import OnMessage
from etl.server.engine import Engine, LetterTask, PreparedPipeline

LetterVerb: TypeAlias = Literal["replay", "drop"]
"""How dead letters are settled."""


@dataclass(frozen=True)
class LetterRequest:
    """Which dead letters are to be settled, and how."""

    verb: LetterVerb
    letters: LetterFilter


class LetterRequests:
    """The request of one pipeline, of which there is at most one at a time.

    ``changed`` is the lock of the pipeline: callers hold it, except those of `run`, which works without it.
    """

    def __init__(self, engine: Engine, name: str, changed: threading.Condition) -> None:
        self.current: LetterRequest | None = None
        """The request that waits or is carried out."""
        self._engine, self._name, self._changed = engine, name, changed
        self._task: LetterTask | None = None
        """The replay or drop that runs."""
        self._is_first_start = True
        self._is_closed = False

    def add(self, request: LetterRequest) -> None:
        """Add a request. Raises EtlError if another one is going on."""
        if self.current is not None:
            raise EtlError(f"a {self.current.verb} of its dead letters is going on")
        self.current = request

    def add_unfinished_replay(self) -> bool:
        """Before the first start of the pipeline: add a replay that was killed, or stopped with the server, and return whether
        there is one. Its letters do not count as open, so that no user would request another one."""
        is_first, self._is_first_start = self._is_first_start, False
        with suppress(OSError, ValueError, EtlError):
            if is_first and self.current is None and count_open_letters(self._engine.state(self._name)):
                self.current = LetterRequest("replay", NO_LETTERS)
                return True
        return False

    def withdraw(self) -> LetterRequest | None:
        """Remove a request that has not begun, and return it."""
        request, self.current = self.current, None
        return request

    def stop(self) -> None:
        """Stop a replay after its micro-batch; the next one finishes it."""
        if self._task is not None:
            self._task.stop()

    def close(self) -> None:
        """Stop a replay, and begin no other one."""
        self._is_closed = True
        self.stop()

    def run(
        self,
        prepare: Callable[[], PreparedPipeline],
        on_begin: Callable[[], None],
        report: OnMessage,
        on_failure: Callable[[LetterRequest, Exception], None],
    ) -> None:
        """Carry out the request with the pipeline that ``prepare`` returns; the request goes on until ``on_failure`` has
        returned."""
        with self._changed:
            request = self.current
        assert request is not None
        try:
            if not self._is_closed:
                pipeline = prepare().pipeline
                with self._changed:
                    make = self._engine.replay if request.verb == "replay" else self._engine.drop
                    task = self._task = make(pipeline, request.letters)
                    if self._is_closed:  # meanwhile
                        task.stop()
                on_begin()
                task.run(report)
        except Exception as error:
            on_failure(request, error)
        finally:
            with self._changed:
                self.current = self._task = None
