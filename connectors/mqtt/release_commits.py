"""Records the releases (PUBREL) of messages of QoS 2, and says which may be answered: after one sync for all that wait.

In a thread beside that of `SessionCommits`, so that releases and messages do not wait for each other's sync.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from connectors.mqtt.packet_ids import PacketIds
from connectors.mqtt.packets import PUBCOMP_BYTE, encode_answers
from connectors.mqtt.session_commits import RETRY_SECONDS
from etl.api import write_advice

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

log = logging.getLogger("sluice.source.mqtt")


class ReleaseCommits:
    """Records groups of releases one after the other: what arrives while the disk is busy is the next group."""

    def __init__(self, ids: PacketIds, wake: Callable[[], None]) -> None:
        self._ids, self._wake = ids, wake
        self._changed = threading.Condition()
        self._waiting: list[Array] = []
        self._is_recording, self._is_stopping = False, False
        self._ready: list[bytes] = []
        self.last_seconds = 0.0
        """How long the last group took."""
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="mqtt-releases", daemon=True)
        self._thread.start()

    def add(self, released: Array) -> None:
        """Record packet identifiers as soon as possible."""
        with self._changed:
            self._waiting.append(released)
            self._changed.notify_all()

    def take_acknowledgements(self) -> bytes:
        """Return PUBCOMP for what has been recorded, each once."""
        with self._changed:
            ready, self._ready = self._ready, []
        return b"".join(ready)

    def wait_until_stored(self, seconds: float | None = None) -> bool:
        """Wait until everything is recorded; False after ``seconds``, or when the run ends before."""
        with self._changed:
            self._changed.wait_for(lambda: not self._has_work() or self._is_stopping, seconds)
            return not self._has_work()

    def stop(self) -> None:
        """Give up what cannot be recorded now: the broker sends it again."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread."""
        self.stop()
        self._thread.join()

    def _has_work(self) -> bool:
        return bool(self._waiting) or self._is_recording

    def _run(self) -> None:
        import numpy as np

        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_stopping)
                if self._is_stopping:
                    return
                waiting, self._waiting, self._is_recording = self._waiting, [], True
            begun = time.monotonic()
            released = np.concatenate(waiting)
            is_recorded = self._record(released)
            with self._changed:
                if is_recorded:
                    self._ready.append(encode_answers(PUBCOMP_BYTE, released))
                self._is_recording, self.last_seconds = False, time.monotonic() - begun
                self._changed.notify_all()
            self._wake()

    def _record(self, released: Array) -> bool:
        """Record until that succeeds; False if the run ends before."""
        while True:
            try:
                self._ids.release(released)
                return True
            except OSError as error:
                log.warning("mqtt: releases cannot be written; retrying: %s; %s", error.strerror or error, write_advice(error))
            with self._changed:
                if self._changed.wait_for(lambda: self._is_stopping, RETRY_SECONDS):
                    return False
