"""An `mqtt` source with its receiver, events published to it, and a broker whose packets a test writes."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from connectors.mqtt.packets import encode_text, encode_varint, packet_length, split_packet
from connectors.mqtt.sink import MqttSink
from connectors.mqtt.source import MqttSource
from etl.api import Limit, Rejects, Result, Task

FAR = Limit(1 << 62)


def create_source(folder: Path, address: str, **options: Any) -> MqttSource:
    values = {"type": "mqtt", "servers": [address], "topics": ["t/#"], **options}
    return MqttSource.model_validate(values).with_folder(str(folder / "journal"))


def rows(source: MqttSource) -> list[dict[str, Any]]:
    """The events of the journal as workers read it; a rejected event has a ``code`` and a ``reason``."""
    found: list[dict[str, Any]] = []
    for split in source.splits(source.start(), source.latest(source.start(), FAR), 2):
        for batch in source.read(split):
            if isinstance(batch, Rejects):
                found += [{**row, "code": batch.code, "reason": batch.reasons} for row in batch.events.to_pylist()]
            else:
                assert batch.schema.names == [*source.fields().names, "_offset"]
                assert batch.schema.field("message").type in (source.fields().field("message").type, pa.string_view())
                found += batch.to_pylist()
    return found


def messages(source: MqttSource) -> list[Any]:
    return [row["message"] for row in rows(source)]


def batch_of(**columns: Sequence[Any]) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    return pa.record_batch({**columns, "_offset": pa.array(range(count), pa.int64())})


def create_sink(address: str, **options: Any) -> MqttSink:
    return MqttSink.model_validate({"type": "mqtt", "servers": [address], "topic": "t/a", "payload_field": "text", **options})


def write(sink: MqttSink, batch: pa.RecordBatch) -> Result:
    writer = sink.open(Task("test", "out", "0", "/nowhere", batch.schema))
    try:
        result = writer.write(batch)
    except BaseException:
        writer.abort()
        raise
    writer.close()
    return result


def publish(address: str, texts: Sequence[Any], **options: Any) -> None:
    result = write(create_sink(address, **options), batch_of(text=texts))
    assert result.retryable is None
    assert not result.rejected


def publish_packet(text: bytes, number: int, flags: int, topic: str = "t/a", properties: bytes | None = b"") -> bytes:
    """A PUBLISH packet; flags: 8 repeated, 2 and 4 the QoS, 1 retained. ``properties`` None is MQTT 3.1.1."""
    body = encode_text(topic) + (struct.pack(">H", number) if flags & 6 else b"")
    body += (b"" if properties is None else encode_varint(len(properties)) + properties) + text
    return bytes([0x30 | flags]) + encode_varint(len(body)) + body


class Client:
    """A client's connection, as a broker that a test plays sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self._data = sock, b""

    def packet(self) -> tuple[int, bytes]:
        """The next packet: its type and what follows its length. Raises EOFError at the end."""
        while (size := packet_length(self._data) if len(self._data) > 1 else None) is None or len(self._data) < size:
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError
            self._data += data
        packet, self._data = self._data[:size], self._data[size:]
        return split_packet(packet)

    def welcome(self, has_session: bool = False, properties: bytes = b"", code: int = 0) -> bytes:
        """Answer CONNECT and, after success, SUBSCRIBE; return what CONNECT said."""
        kind, hello = self.packet()
        assert kind == 1
        body = bytes([has_session, code]) + encode_varint(len(properties)) + properties
        self.sock.sendall(bytes([0x20]) + encode_varint(len(body)) + body)
        return hello

    def subscribe(self) -> bytes:
        """Answer SUBSCRIBE as asked; return what it said."""
        kind, body = self.packet()
        assert kind == 8
        self.sock.sendall(b"\x90\x04" + body[:2] + b"\0" + bytes([body[-1] & 3]))
        return body


@contextmanager
def played(*scripts: Callable[[Client], None]) -> Iterator[str]:
    """A broker that plays a script with each connection, one after the other, and then refuses; its address."""
    errors: list[BaseException] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for script in scripts:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                with sock:
                    sock.settimeout(120)
                    try:
                        script(Client(sock))
                    except (EOFError, ConnectionError):
                        pass
                    except BaseException as error:
                        errors.append(error)
                        return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
    thread.join(120)
    if errors:
        raise errors[0]


def lines(numbers: Sequence[int]) -> list[str]:
    return [json.dumps({"n": number}) for number in numbers]
