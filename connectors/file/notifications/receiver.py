"""Receives messages about new objects in the driver, from `start` to `stop`, and deletes them when their objects are delivered.

One thread receives: it asks the store for size and time of each object that a message announces, and puts the message into the
inbox that the planners read. Another deletes messages, and extends the visibility timeout of the others. An error here delays
objects and loses none: the queue gives a message again, and the source lists the store from time to time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

from connectors.file.notifications.inbox import DELIVERED_FILE, Announcement, Inbox
from connectors.file.notifications.messages import CreatedObject, UnknownMessageError, read_message
from connectors.file.notifications.sqs_queue import REQUEST_MESSAGES, QueueMessage, SqsQueue
from connectors.file.objects.object_checks import is_object_matched
from connectors.file.objects.object_path import ObjectPath
from connectors.file.objects.object_scan import ObjectScan
from connectors.file.objects.stored_object import StoredObject
from connectors.file.reading.bounded_cache import BoundedCache
from connectors.file.reading.tracked_files import FileOffsets
from etl.api import ComponentError

MAX_WAITING = 10_000
"""Messages in the inbox at most: then the queue keeps the rest. SQS gives out 120,000 that are not deleted."""

_ROUND_SECONDS = 0.5
_DEPTH_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.5, 30.0
_STOP_SECONDS = 15.0

log = logging.getLogger("sluice.source.file")


class NotificationReceiver:
    """Receives from one queue for one source."""

    def __init__(self, queue: SqsQueue, scan: ObjectScan, inbox: Inbox) -> None:
        self._queue, self._scan, self._inbox = queue, scan, inbox
        self._lock = threading.Lock()
        self._waiting: dict[str, Announcement] = {}
        self._due: dict[str, float] = {}
        """Message → when its visibility timeout is extended (monotonic seconds)."""
        self._delivered: tuple[FileOffsets, ...] = ()
        self._delivered_stat = (0, 0)
        self._left: BoundedCache[str, None] = BoundedCache()
        """Messages that were said to be no notifications: the queue gives them again and again."""
        self._depth_due = 0.0
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(REQUEST_MESSAGES)
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin. Raises ComponentError if the queue does not exist or refuses the login; if it does not answer, retries later."""
        self._waiting = {one.id: one for one in self._inbox.announcements()}
        try:
            self._inbox.note_depth(self._queue.depth())
        except OSError as error:
            log.warning("file: %s; retrying", error)
        except ComponentError:
            self._queue.close()
            raise
        for work in (self.receive, self._keep):
            arguments = (self._repeat, work)
            self._threads.append(threading.Thread(target=copy_context().run, args=arguments, name="notifications", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Delete messages whose objects are delivered, and end; the others stay in the inbox and in the queue."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)
        try:
            self.delete_delivered()
        except (OSError, ComponentError) as error:
            log.warning("file: messages could not be deleted, and come again: %s", error)
        self._pool.shutdown()
        self._queue.close()

    def dropped(self) -> Mapping[str, int]:
        """No events."""
        return {}

    def _repeat(self, work: Callable[[], None]) -> None:
        """Work until the run ends; pause after errors."""
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            try:
                work()
                pause = _FIRST_PAUSE_SECONDS
            except (OSError, ComponentError) as error:
                log.warning("file: %s; retrying in %g s, new objects are found by listing meanwhile", error, pause)
                self._stopping.wait(pause)
                pause = min(2 * pause, _LAST_PAUSE_SECONDS)

    # ── Receiving ─────────────────────────────────────────────────────────────────────────────────

    def receive(self) -> None:
        """Receive messages once. Raises OSError and ComponentError."""
        if len(self._waiting) >= MAX_WAITING:
            self._stopping.wait(_ROUND_SECONDS)
            return
        found = [one for one in self._queue.receive() if not self._renew(one)]
        announced = [one for one in self._pool.map(self._announcement, found) if one is not None]
        for one in announced:
            if one.objects:
                self._wait_for(one)
        self._queue.delete(one.handle for one in announced if not one.objects)

    def _renew(self, message: QueueMessage) -> bool:
        """Take the new handle of a message that came again; False if it is not waiting."""
        with self._lock:
            known = self._waiting.get(message.id)
        if known is not None:
            self._wait_for(Announcement(known.id, message.handle, known.objects))
        return known is not None

    def _wait_for(self, announced: Announcement) -> None:
        self._inbox.put(announced)
        with self._lock:
            self._waiting[announced.id] = announced
            self._due[announced.id] = time.monotonic() + self._extend_seconds

    def _announcement(self, message: QueueMessage) -> Announcement | None:
        """The objects of the glob that a message announces and that exist; None if it is left in the queue."""
        try:
            objects = [self._look(one) for one in read_message(message.body)]
        except UnknownMessageError as error:
            if message.id not in self._left:
                log.warning("file: message %s stays in the queue, because it is not a notification of S3: %s", message.id, error)
                self._left[message.id] = None
            return None
        except (OSError, ValueError) as error:
            log.warning("file: the objects of message %s cannot be looked at, it comes again: %s", message.id, error)
            return None
        return Announcement(message.id, message.handle, tuple(one for one in objects if one is not None))

    def _look(self, created: CreatedObject) -> StoredObject | None:
        """Size and time of an object, as a listing has them; None if it is none of this source's. Raises OSError, ValueError."""
        parts = ObjectPath.of(self._scan.uri)
        path = f"{created.bucket}/{created.key}"
        if created.bucket != parts.host or not is_object_matched(parts.uri(path), self._scan.uri, self._scan.exclude):
            return None
        return self._scan.find_object(path)

    # ── Deleting and extending ───────────────────────────────────────────────────────────────────

    def _keep(self) -> None:
        self._stopping.wait(_ROUND_SECONDS)
        self.delete_delivered()
        self.extend()
        if time.monotonic() >= self._depth_due:
            self._depth_due = time.monotonic() + _DEPTH_SECONDS
            self._inbox.note_depth(self._queue.depth())

    def delete_delivered(self) -> None:
        """Delete the messages of which all queries have delivered all objects. Raises OSError and ComponentError."""
        self._read_delivered()
        with self._lock:
            waiting = list(self._waiting.values())
        if not self._delivered or not waiting:
            return
        known = [self._scan.delivered_objects(end) for end in self._delivered]
        done = [one for one in waiting if all(holds(item) for holds in known for item in one.objects)]
        self._queue.delete(one.handle for one in done)  # one that is not deleted comes again, and is known to be delivered
        self._inbox.remove(done)
        with self._lock:
            for one in done:
                self._waiting.pop(one.id, None)
                self._due.pop(one.id, None)

    def extend(self) -> None:
        """Extend the visibility timeout of messages of which half is over. Raises OSError and ComponentError."""
        now = time.monotonic()
        with self._lock:
            due = [one for one in self._waiting.values() if self._due.get(one.id, 0.0) <= now]
            for one in due:
                self._due[one.id] = now + self._extend_seconds
        if due:
            self._queue.extend(one.handle for one in due)

    @property
    def _extend_seconds(self) -> float:
        return self._queue.options.visibility.total_seconds() / 2

    def _read_delivered(self) -> None:
        try:
            found = os.stat(Path(self._inbox.folder, DELIVERED_FILE))
        except FileNotFoundError:
            return
        stat = found.st_mtime_ns, found.st_ino
        if stat != self._delivered_stat:
            self._delivered, self._delivered_stat = tuple(self._inbox.delivered()), stat
