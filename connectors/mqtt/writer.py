"""Writer of the sink: messages in flight up to the broker's limit, and the answers to each."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.mqtt.connection import Connection, connect
from connectors.mqtt.connection_options import ConnectionSettings
from connectors.mqtt.message_encoding import EncodedMessages, MessageEncoding, reject_unsendable
from connectors.mqtt.packets import (
    DISCONNECT,
    MAX_PACKET_BYTES,
    MAXIMUM_PACKET_SIZE,
    MAXIMUM_QOS,
    PING,
    PINGRESP,
    PUBCOMP,
    PUBREC,
    PUBREL_BYTE,
    RECEIVE_MAXIMUM,
    RETAIN_AVAILABLE,
    Login,
    Welcome,
    encode_answers,
    new_client_id,
    parse_answer,
    parse_farewell,
    split_packet,
)
from connectors.mqtt.reasons import FAILURE, TEMPORARY
from etl.api import ComponentError, Rejects, Result, Staged

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_IN_FLIGHT = 65_535
"""Messages in flight at most: as many as there are packet identifiers."""

OLD_IN_FLIGHT = {0: MAX_IN_FLIGHT, 1: 1000, 2: 20}
"""The same with MQTT 3.1.1 by QoS, where brokers do not say how many they accept: Mosquitto ends a connection with more than 20
of QoS 2, which it holds until they are released."""

_NOT_AUTHORIZED = 0x87
_ROUND_SECONDS = 0.25


class BrokerConnection:
    """A connection that publishes, and what its broker accepts."""

    def __init__(self, connection: Connection, welcome: Welcome, rest: bytes, is_version_5: bool) -> None:
        self.connection, self._rest, self._is_version_5 = connection, rest, is_version_5
        limits = welcome.properties
        self._receive_maximum = limits.get(RECEIVE_MAXIMUM, MAX_IN_FLIGHT)
        self.max_qos, self.retains = limits.get(MAXIMUM_QOS, 2), bool(limits.get(RETAIN_AVAILABLE, 1))
        self.max_packet_bytes = limits.get(MAXIMUM_PACKET_SIZE, MAX_PACKET_BYTES)
        self.next_identifier = 1
        self.used_at = time.monotonic()

    def max_in_flight(self, qos: int) -> int:
        """Return how many messages may be in flight."""
        return self._receive_maximum if self._is_version_5 else OLD_IN_FLIGHT[qos]

    def answers(self, seconds: float) -> tuple[Array, bytes, bool]:
        """Wait for answers: as `find_answers` finds them, in which bytes, and whether a PINGRESP is among the packets.

        Raises OSError if the connection is lost.
        """
        import numpy as np

        from connectors.mqtt.packets_kernel import find_answers

        data = self._rest + self.connection.round(seconds)
        count = len(data) // 2 + 1
        answers, others, counts = np.empty((5, count), np.int64), np.empty((2, count), np.int64), np.empty(4, np.int64)
        at = int(find_answers(np.frombuffer(data, np.uint8), answers, others, counts))
        if counts[2]:
            raise ConnectionError(f"mqtt: {self.connection.name}: a packet is damaged (first byte 0x{data[at]:02x})")
        self._rest = data[at:]
        has_pong = False
        for begin, end in others[:, : counts[1]].T.tolist():
            kind, body = split_packet(data[begin:end])
            if kind == DISCONNECT:
                raise ConnectionError(f"mqtt: {self.connection.name} ends the connection: {parse_farewell(body)}")
            has_pong |= kind == PINGRESP
        return answers[:, : counts[0]], data, has_pong


class MqttWriter:
    """Writes the events of a split over one connection."""

    def __init__(self, settings: ConnectionSettings, encoding: MessageEncoding) -> None:
        self._settings, self._encoding = settings, encoding
        self._broker: BrokerConnection | None = None

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the encoded bytes of each message."""
        return pa.array(self._encoding.encode(batch).sizes[1])

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send messages and wait until the broker has them all; what it has not accepted is retryable."""
        broker = self._connected()
        messages = self._encoding.encode(batch)
        rejected, rows = reject_unsendable(batch, messages, broker.max_packet_bytes)
        if not len(rows):
            return Result(rejected=rejected)
        sending = _Sending(broker, self._encoding, messages, rows, self._settings.timeout)
        try:
            sending.run()
        except OSError as error:
            broker.connection.abort()
            self._broker = None
            if sending.is_untouched:
                raise
            sending.cause = str(error)
        rejected += [Rejects(batch.take(pa.array([row])), "mqtt-rejected", reason) for row, reason in sending.refused]
        left = sending.left
        return Result(pa.array(left) if len(left) else None, rejected, sending.cause)

    def close(self) -> Staged | None:
        """Keep the connection for the next split of this process."""
        if self._broker is not None:
            POOL.give(self._settings, self._broker)
            self._broker = None
        return None

    def abort(self) -> None:
        """Close the connection: what is in flight may be published."""
        if self._broker is not None:
            self._broker.connection.abort()
            self._broker = None

    def _connected(self) -> BrokerConnection:
        if self._broker is None:
            self._broker = POOL.take(self._settings) or open_broker(self._settings)
            if self._encoding.qos > self._broker.max_qos:
                raise ComponentError(
                    f"mqtt: {self._broker.connection.name} accepts messages with QoS {self._broker.max_qos} at most: write "
                    f"qos: {self._broker.max_qos}"
                )
            if self._encoding.retain and not self._broker.retains:
                raise ComponentError(f"mqtt: {self._broker.connection.name} does not retain messages: remove retain")
        return self._broker


class _Sending:
    """Messages of one batch on their way, in the order of their packet identifiers."""

    def __init__(
        self, broker: BrokerConnection, encoding: MessageEncoding, messages: EncodedMessages, rows: Array, timeout: float
    ) -> None:
        import numpy as np

        self._broker, self._encoding, self._rows, self._timeout = broker, encoding, rows, timeout
        self._first = broker.next_identifier
        identifiers = (
            (self._first - 1 + np.arange(len(rows))) % MAX_IN_FLIGHT + 1 if encoding.qos else np.zeros(len(rows), np.int64)
        )
        self._data, self._ends = encoding.write(messages, rows, identifiers)
        self._sent = 0
        self._is_done = np.zeros(len(rows), bool)
        self._is_retryable = np.zeros(len(rows), bool)
        self._done_before = 0
        """All messages before this one are done."""
        self.refused: list[tuple[int, str]] = []
        self.cause = ""
        self._topics = messages.topic_names

    @property
    def is_untouched(self) -> bool:
        """Whether the broker has answered nothing."""
        return not self._is_done.any()

    @property
    def left(self) -> Array:
        """The rows that the broker has not accepted, and may accept later."""
        return self._rows[~self._is_done | self._is_retryable]

    def run(self) -> None:
        """Send everything and wait for its answers. Raises OSError."""
        if self._encoding.qos:
            self._run_acknowledged()
        else:
            self._run_unacknowledged()

    def _run_acknowledged(self) -> None:
        import numpy as np

        total, answered_at, in_flight = len(self._rows), time.monotonic(), self._broker.max_in_flight(self._encoding.qos)
        self._broker.next_identifier = (self._first - 1 + total) % MAX_IN_FLIGHT + 1
        while self._done_before < total:
            self._send_until(min(total, self._done_before + in_flight))
            answers, data, _ = self._broker.answers(_ROUND_SECONDS)
            if answers.shape[1]:
                answered_at = time.monotonic()
                self._take(answers, data)
                open_ = np.flatnonzero(~self._is_done[self._done_before : self._sent])
                self._done_before = self._done_before + int(open_[0]) if len(open_) else self._sent
            elif time.monotonic() - answered_at > self._timeout:
                raise TimeoutError(
                    f"mqtt: {self._broker.connection.name} has not acknowledged messages for {self._timeout:.0f} s"
                )

    def _run_unacknowledged(self) -> None:
        """Send all, and a PINGREQ: its answer says that the broker has read what is before it."""
        self._send_until(len(self._rows))
        self._broker.connection.send(PING)
        until = time.monotonic() + self._timeout
        while True:
            had_unsent = self._broker.connection.has_unsent
            _, _, has_pong = self._broker.answers(_ROUND_SECONDS)
            if has_pong and not self._broker.connection.has_unsent:
                break
            if had_unsent:
                until = time.monotonic() + self._timeout
            if time.monotonic() > until:
                raise TimeoutError(f"mqtt: {self._broker.connection.name} has not answered for {self._timeout:.0f} s")
        self._is_done[:] = True

    def _send_until(self, count: int) -> None:
        if count > self._sent:
            begin = int(self._ends[self._sent - 1]) if self._sent else 0
            self._broker.connection.send(self._data[begin : int(self._ends[count - 1])])
            self._sent = count

    def _take(self, answers: Array, data: bytes) -> None:
        """Mark messages as done, continue those of QoS 2, and note what the broker refuses."""
        import numpy as np

        kinds, identifiers, codes = answers[0], answers[1], answers[2]
        base = (self._first - 1 + self._done_before) % MAX_IN_FLIGHT + 1
        at = self._done_before + (identifiers - base) % MAX_IN_FLIGHT
        known = at < self._sent
        failed = codes >= FAILURE
        for number in np.flatnonzero(failed & known & (kinds != PUBCOMP)).tolist():
            _, body = split_packet(data[answers[3, number] : answers[4, number]])
            self._refuse(int(at[number]), *parse_answer(body, self._encoding.is_version_5)[1:])
        ends = (kinds != PUBREC) | failed
        self._is_done[at[ends & known]] = True
        goes_on = identifiers[(kinds == PUBREC) & ~failed]
        if len(goes_on):
            self._broker.connection.send(encode_answers(PUBREL_BYTE, goes_on))

    def _refuse(self, at: int, code: int, reason: str) -> None:
        row = int(self._rows[at])
        topic = self._topics[row].as_py()
        message = f"mqtt: {self._broker.connection.name} refuses a message to {topic!r}: {reason}"
        if code in TEMPORARY:
            self._is_retryable[at] = True
            self.cause = message
        elif code == _NOT_AUTHORIZED and self._encoding.topic.is_constant:
            raise ComponentError(message)
        else:
            self.refused.append((row, message))


class _Pool:
    """Connections of this process that no split uses."""

    def __init__(self) -> None:
        self._idle: dict[ConnectionSettings, list[BrokerConnection]] = {}
        self._lock = threading.Lock()

    def take(self, settings: ConnectionSettings) -> BrokerConnection | None:
        """Return a connection that its broker has not closed, if there is one."""
        while True:
            with self._lock:
                idle = self._idle.get(settings)
                broker = idle.pop() if idle else None
            if broker is None:
                return None
            if time.monotonic() - broker.used_at < settings.keep_alive / 2:
                try:
                    broker.answers(0)
                    return broker
                except OSError:
                    pass
            broker.connection.abort()

    def give(self, settings: ConnectionSettings, broker: BrokerConnection) -> None:
        """Keep a connection."""
        broker.used_at = time.monotonic()
        with self._lock:
            self._idle.setdefault(settings, []).append(broker)


POOL = _Pool()


def open_broker(settings: ConnectionSettings) -> BrokerConnection:
    """Open a connection that publishes. Raises OSError, or ComponentError if the login is refused."""
    login = Login(new_client_id(), settings.is_version_5, True, settings.keep_alive, *settings.login)
    connection, welcome, rest = connect(settings, login)
    return BrokerConnection(connection, welcome, rest, settings.is_version_5)
