"""Receives the messages of a session from `start` to `stop`, and writes the journal of a folder.

One thread connects, reads and sends acknowledgements; the threads of `SessionCommits` and `ReleaseCommits` store. While the
journal or the disk is full, the connection is not read, nothing is acknowledged, and the broker waits.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

from connectors.mqtt.connection import Connection, connect_until
from connectors.mqtt.connection_options import ConnectionSettings
from connectors.mqtt.packet_ids import PacketIds
from connectors.mqtt.packet_reader import PacketReader, Packets
from connectors.mqtt.packets import (
    DISCONNECT,
    PINGRESP,
    PUBACK_BYTE,
    PUBREC_BYTE,
    REASON_TEXT,
    RECEIVE_MAXIMUM,
    SESSION_EXPIRY,
    SUBACK,
    UNSUBACK,
    Login,
    ProtocolError,
    encode_answers,
    encode_property,
    encode_subscribe,
    encode_unsubscribe,
    new_client_id,
    parse_codes,
    parse_farewell,
    split_packet,
)
from connectors.mqtt.publishes import VERSION_5, ids_after
from connectors.mqtt.reasons import FAILURE, reason_of
from connectors.mqtt.release_commits import ReleaseCommits
from connectors.mqtt.session_commits import MAX_GROUP_BYTES, Received, SessionCommits
from connectors.shared.journal.event_blocks import Sender
from connectors.shared.journal.options import JournalOptions
from connectors.shared.journal.reader import Journal
from connectors.shared.journal.writer import JournalWriter
from etl.api import ComponentError, replace_file

CLIENT_FILE = "client-id"
MAX_WAITING_BYTES = 2 * MAX_GROUP_BYTES
"""Bytes of packets in memory that are not stored yet, beyond which the connection is not read."""

_GATHERED_BYTES = 256 << 10
_MAX_GATHER_SECONDS = 0.005
_SYNCS_OF_GATHERING = 0.25
"""Brokers send releases and messages one by one: after the first, others are awaited for this share of the time that the last
group took to be stored, so that they do not wait for the sync of the first, up to these seconds or bytes."""

_ROUND_SECONDS = 0.25
_STOP_SECONDS = 5.0
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.5, 30.0
_SUBSCRIBE, _UNSUBSCRIBE = 1, 2
"""Packet identifiers of the two requests; those of messages are the broker's, and independent."""

log = logging.getLogger("sluice.source.mqtt")


@dataclass(frozen=True)
class ReceiverOptions:
    """What a receiver needs to know."""

    settings: ConnectionSettings
    client: str | None
    topics: tuple[str, ...]
    qos: int
    clean_start: bool
    session_expiry: int
    """Seconds."""

    receive_maximum: int
    max_message_bytes: int
    reads_retained: bool
    journal: JournalOptions


class MqttReceiver:
    """One session of a client."""

    def __init__(self, options: ReceiverOptions, folder: str) -> None:
        self._options, self._folder = options, folder
        self._is_version_5 = options.settings.is_version_5
        self._stopping = threading.Event()
        self._connection: Connection | None = None
        self._is_subscribed, self._is_first, self._failures = False, True, 0
        self._closing = ExitStack()
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="mqtt", daemon=True)

    def start(self) -> None:
        """Connect and subscribe. Raises ComponentError if the broker refuses that; if it does not answer, retries later."""
        with ExitStack() as stack:
            journal = JournalWriter(self._folder, self._options.journal)
            stack.callback(journal.close)
            self._client = self._options.client or _own_client_id(Path(self._folder))
            self._ids = PacketIds(self._folder, self._client, self._options.journal.fsync == "always")
            stack.callback(self._ids.close)
            self._ids.load(lambda at: ids_after(Journal(self._folder), at, journal.end), journal.end)
            self._seen_ids = self._ids.are_stored.copy()
            self._wakes, self._wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            stack.callback(os.close, self._wakes)
            stack.callback(os.close, self._wake_end)
            self._commits = SessionCommits(journal, self._ids, self._wake)
            stack.callback(self._commits.close)
            self._releases = ReleaseCommits(self._ids, self._wake)
            stack.callback(self._releases.close)
            self._begin()
            self._closing = stack.pop_all()
        self._thread.start()

    def stop(self) -> None:
        """Store and acknowledge what has arrived, and disconnect; the broker keeps the session for the next run."""
        self._stopping.set()
        self._wake()
        self._thread.join()
        self._closing.close()

    def dropped(self) -> Mapping[str, int]:
        """Return nothing: what is not acknowledged stays with the broker."""
        return {}

    # ── Connecting ─────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        """The first connection, in the thread of the caller, who learns what is refused."""
        try:
            self._connect()
            until = time.monotonic() + self._options.settings.timeout
            while not self._is_subscribed:
                if time.monotonic() > until:
                    raise TimeoutError(f"mqtt: {self._name} does not answer the subscription")
                self._round()
        except OSError as error:
            self._failed(error)
        except BaseException:
            self._disconnect()
            raise

    def _connect(self) -> bool:
        """Connect and ask for the topics; returns False if the run ends meanwhile."""
        options = self._options
        clean = options.clean_start and (self._is_first or not self._is_version_5)
        properties = [(SESSION_EXPIRY, options.session_expiry), (RECEIVE_MAXIMUM, options.receive_maximum)]
        settings = options.settings
        login = Login(
            self._client,
            self._is_version_5,
            clean,
            settings.keep_alive,
            *settings.login,
            b"".join(encode_property(*one) for one in properties),
        )
        answer = connect_until(self._stopping, settings, login)
        if answer is None:
            return False
        self._connection, welcome, rest = answer
        self._is_subscribed = False
        self._take_acknowledgements()  # of an earlier connection, whose broker sends these messages again
        if not welcome.has_session:
            if not self._is_first and not options.clean_start:
                log.warning("mqtt: %s has no session of %s any more: messages may be lost", self._connection.name, self._client)
            self._ids.reset()
            self._seen_ids[:] = False
        granted = welcome.properties.get(SESSION_EXPIRY, options.session_expiry)
        if self._is_first and granted < options.session_expiry:
            log.warning("mqtt: %s keeps the session for %d s only after the end of a run", self._connection.name, granted)
        self._is_first = False
        self._reader = PacketReader(options.max_message_bytes, self._is_version_5)
        host, port = self._connection.address
        self._sender = Sender(host, port, None, VERSION_5 if self._is_version_5 else "3.1.1")
        self._subscribe()
        self._take(rest)
        return True

    def _subscribe(self) -> None:
        assert self._connection is not None
        if left := sorted(set(self._ids.filters) - set(self._options.topics)):
            self._connection.send(encode_unsubscribe(_UNSUBSCRIBE, left, self._is_version_5))
        retained = (0x10 if self._options.reads_retained else 0x20) if self._is_version_5 else 0
        filters = [(topic, self._options.qos | retained) for topic in self._options.topics]
        self._connection.send(encode_subscribe(_SUBSCRIBE, filters, self._is_version_5))

    @property
    def _name(self) -> str:
        return self._connection.name if self._connection else ""

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _failed(self, error: Exception) -> None:
        """Log why there is no connection: the first time at once, then with each further attempt."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        self._failures += 1
        log.warning("%s; retrying, nothing is received meanwhile", error)

    # ── Receiving ──────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._connection is None:
                    self._pause()
                    if not self._wait_until_stored() or self._stopping.is_set() or not self._connect():
                        continue
                self._round()
            except (OSError, ComponentError) as error:
                self._failed(error)
            except Exception as error:
                log.exception("mqtt: the connection ends, and a new one is opened")
                self._failed(error)
        with suppress(OSError):
            self._finish()
        self._disconnect()

    def _pause(self) -> None:
        limit = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 30), _LAST_PAUSE_SECONDS)
        self._stopping.wait(random.uniform(limit / 2, limit) if self._failures else 0)

    def _round(self) -> None:
        assert self._connection is not None
        self._connection.send(self._take_acknowledgements())
        reads = self._commits.waiting_bytes < MAX_WAITING_BYTES
        data = self._connection.round(_ROUND_SECONDS, reads=reads, wake=[self._wakes])
        with suppress(BlockingIOError):
            os.read(self._wakes, 1 << 12)
        if data:
            self._gather(data)

    def _gather(self, data: bytes) -> None:
        """Take what has arrived, with what follows it at once."""
        assert self._connection is not None
        last_seconds = max(self._commits.last_seconds, self._releases.last_seconds)
        until = time.monotonic() + min(last_seconds * _SYNCS_OF_GATHERING, _MAX_GATHER_SECONDS)
        parts, size = [data], len(data)
        try:
            while parts[-1] and size < _GATHERED_BYTES and (left := until - time.monotonic()) > 0:
                parts.append(self._connection.round(left))
                size += len(parts[-1])
        finally:
            self._take(b"".join(parts))  # also if the connection ends meanwhile

    def _take_acknowledgements(self) -> bytes:
        return self._commits.take_acknowledgements() + self._releases.take_acknowledgements()

    def _wait_until_stored(self, seconds: float | None = None) -> bool:
        return self._commits.wait_until_stored(seconds) and self._releases.wait_until_stored(seconds)

    def _finish(self) -> None:
        """Store what has arrived, and send its acknowledgements."""
        self._wait_until_stored(_STOP_SECONDS)
        self._commits.stop()
        self._releases.stop()
        if self._connection is None:
            return
        self._connection.send(self._take_acknowledgements())
        until = time.monotonic() + _STOP_SECONDS
        while self._connection.has_unsent and time.monotonic() < until:
            self._connection.round(_ROUND_SECONDS, reads=False)

    def _take(self, data: bytes) -> None:
        if not data:
            return
        try:
            packets = self._reader.read(data)
        except ProtocolError as error:
            raise ConnectionError(f"mqtt: {self._name}: {error}") from error
        received = self._receive(packets)
        if len(packets.released):
            self._releases.add(packets.released)
        if received.acknowledgements or received.rejects or received.spans.shape[1]:
            self._commits.add(received, self._sender)
        for packet in packets.others:
            self._take_other(packet)
        if packets.damage:
            raise ConnectionError(f"mqtt: {self._name}: {packets.damage}")

    def _take_other(self, packet: bytes) -> None:
        kind, body = split_packet(packet)
        if kind == SUBACK:
            self._check_subscribed(body)
        elif kind == DISCONNECT:
            raise ConnectionError(f"mqtt: {self._name} ends the connection: {parse_farewell(body)}")
        elif kind not in (PINGRESP, UNSUBACK):
            raise ProtocolError(f"mqtt: {self._name} sent a packet of type {kind}, which no client expects")

    def _check_subscribed(self, body: bytes) -> None:
        _, codes, properties = parse_codes(body, self._is_version_5)
        for topic, code in zip(self._options.topics, codes, strict=False):
            if code >= FAILURE:
                reason = reason_of(code, properties.get(REASON_TEXT)) if self._is_version_5 else "it does not say why"
                raise ComponentError(f"mqtt: {self._name} refuses the subscription to {topic!r}: {reason}")
            if code < self._options.qos:
                log.warning("mqtt: %s sends %r with QoS %d only", self._name, topic, code)
        self._ids.subscribe(self._options.topics)
        self._is_subscribed = True
        if self._failures:
            log.warning("mqtt: connected to %s again", self._name)
        self._failures = 0

    def _receive(self, packets: Packets) -> Received:
        """Decide what is stored: not what is stored already, which the broker sends again because it does not know."""
        import numpy as np

        flags, ids = packets.published[2], packets.published[3]
        is_exact = (flags & _QOS) == _QOS_2
        is_repeated = is_exact & ((flags & _DUPLICATE) > 0) & self._seen_ids[ids]
        is_stored = ~is_repeated & (packets.published[1] > packets.published[0])
        if not self._options.reads_retained:
            is_stored &= (flags & _RETAIN) == 0
        added = ids[is_exact & ~is_repeated]
        self._seen_ids[added] = True
        self._seen_ids[packets.released] = False
        is_acknowledged = (flags & _QOS) > 0
        first_bytes = np.where(is_exact[is_acknowledged], PUBREC_BYTE, PUBACK_BYTE)
        acknowledgements = encode_answers(first_bytes, ids[is_acknowledged])
        rejects = packets.rejects
        if rejects:  # a packet without bytes stands for each of them
            of_rejects = np.flatnonzero(packets.published[1] == packets.published[0])
            rejects = [one for one, at in zip(rejects, of_rejects, strict=True) if not is_repeated[at]]
        return Received(packets.data, packets.published[:2, is_stored], rejects, acknowledgements, added)

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_end, b"\0")


_QOS, _QOS_2, _DUPLICATE, _RETAIN = 6, 4, 8, 1
"""Flags of PUBLISH."""


def _own_client_id(folder: Path) -> str:
    """Return the client identifier of this pipeline: the same in each run with its state folder."""
    path = folder / CLIENT_FILE
    if not path.exists():
        replace_file(path, new_client_id().encode())
    return path.read_text()
