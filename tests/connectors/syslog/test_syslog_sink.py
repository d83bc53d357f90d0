"""The `syslog` sink with our own source as the receiver, over real sockets on loopback."""

from __future__ import annotations

import json
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from running import wait_for
from servers.certificates import Certificates

from connectors.shared.journal.reader import Journal
from connectors.syslog.sink import SyslogSink
from connectors.syslog.source import SyslogSource
from etl.api import OFFSET, TIMESTAMP, ComponentError, Limit, Result, Schema, Task

TASK = Task("p", "out", "split", "/nowhere", pa.schema([]))
AT = datetime(2026, 11, 7, 8, 0, 0, 250001, UTC)
HOSTILE = ["plain", 'q"\\]é\u2028\t', "first\r\n<13>1 - injected\n\0", "", None, "x" * 70_000]
SENT = ["plain", 'q"\\]é\u2028\t', "first#015#012<13>1 - injected#012#000", "", ""]


def batch(texts: list[str | None], **columns: Any) -> pa.RecordBatch:
    given = {"message": pa.array(texts, pa.string()), "timestamp": pa.array([AT] * len(texts), TIMESTAMP), **columns}
    return pa.RecordBatch.from_pydict({**given, OFFSET: list(range(len(texts)))})


def create_sink(address: str, **options: Any) -> SyslogSink:
    return SyslogSink.model_validate({"type": "syslog", "address": address, "value_field": "message", "host": "h", **options})


def messages(events: pa.RecordBatch, **options: Any) -> list[str]:
    return create_sink("tcp://x:1", **options).open(TASK).encoding.messages(events).to_pylist()


def send_and_receive(folder: Path, scheme: str, listen_tls: Any = None, **options: Any) -> tuple[Result, list[str]]:
    """Send `HOSTILE` to a receiver, and return what it has received."""
    listen = {"type": "syslog", "listen": [f"{scheme}://127.0.0.1:0"], "tls": listen_tls}
    source = SyslogSource.model_validate(listen).with_folder(str(folder / "journal"))
    receiver = source.receiver()
    receiver.start()
    try:
        sink = create_sink(f"{scheme}://127.0.0.1:{receiver.ports[0]}", **options)
        assert list(sink.probe(pa.schema([]))) == []
        result = sink.open(TASK).write(batch(HOSTILE))
        wait_for(lambda: sum(stop.events for stop in Journal(source._folder).walk(0)) >= len(SENT))
    finally:
        receiver.stop()
    splits = source.splits(source.start(), source.latest(source.start(), Limit(1 << 62)), 1)
    return result, [text for split in splits for part in source.read(split) for text in part.column("message").to_pylist()]


# ── Messages ──


def test_a_message_of_rfc_5424_has_words_of_fields() -> None:
    names = {"level": ["WARN", None, "what"], "app": ["my app\n", None, "a" * 99], "user.name": ['a"]\\\n', None, "é"]}
    options = {"facility": "local0", "severity": "{level}", "app_name": "{app}", "process_id": "7", "message_id": "m-{app}"}

    found = messages(batch(["a", "b", "c"], **names), structured_data={"e@32473": ["user.name"]}, **options)

    at = "2026-11-07T08:00:00.250001Z h"
    assert found == [
        f'<132>1 {at} my_app_ 7 m-my_app_ [e@32473 user.name="a\\"\\]\\\\#012"] a',
        f"<134>1 {at} - 7 - - b",
        f'<134>1 {at} {"a" * 48} 7 m-{"a" * 30} [e@32473 user.name="é"] c',
    ]


def test_a_message_of_rfc_3164_has_a_tag() -> None:
    events = batch(["a", "b"], pid=[12, None])

    found = messages(events, format="rfc3164", facility="4", severity="err", app_name="my app: x", process_id="{pid}")

    assert found == ["<35>Nov  7 08:00:00 h my_app__x[12]: a", "<35>Nov  7 08:00:00 h my_app__x: b"]


def test_without_a_field_the_text_is_json_and_without_a_time_the_present() -> None:
    events = pa.RecordBatch.from_pydict({"n": [1], "t": pa.array([None], TIMESTAMP), OFFSET: [0]})

    (message,) = messages(events, value_field=None, time_field="t", host=None)

    header, _, text = message.partition(" - - - ")
    assert json.loads(text) == {"n": 1, "t": None}
    _, at, host, app = header.split(" ")
    assert abs((datetime.fromisoformat(at) - datetime.now(UTC)).total_seconds()) < 60
    assert (host, app) == (socket.gethostname(), "sluice")


# ── Sending ──


@pytest.mark.parametrize(
    ("scheme", "options"),
    [("tcp", {}), ("tcp", {"framing": "newline"}), ("udp", {}), ("tcp", {"format": "rfc3164", "framing": "newline"})],
)
def test_what_is_sent_is_received(tmp_path: Path, scheme: str, options: dict[str, Any]) -> None:
    result, received = send_and_receive(tmp_path, scheme, **options)

    assert received == messages(batch(SENT), **options)
    assert [(one.code, one.events.column("message").to_pylist()) for one in result.rejected] == [
        ("event-too-large", HOSTILE[-1:])
    ]


@pytest.mark.slow
def test_tls_verifies_the_receiver(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    files = Certificates(tmp_path_factory.mktemp("certificates"))
    listen = {"certificate": str(files.server.certificate), "key": str(files.server.key)}

    _, received = send_and_receive(tmp_path / "known", "tls", listen, tls={"authority": str(files.authority)})

    assert received == messages(batch(SENT))
    with pytest.raises(ComponentError, match=r"certificate is not accepted.*see tls\.authority"):
        send_and_receive(tmp_path / "unknown", "tls", listen)


def test_a_closed_connection_is_replaced_and_a_refused_one_is_temporary() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        writer = create_sink(f"tcp://127.0.0.1:{listener.getsockname()[1]}", framing="newline").open(TASK)
        writer.sender.connect()
        listener.accept()[0].close()
        writer.write(batch(["one"]))
        with listener.accept()[0] as connection:
            assert connection.recv(1000).endswith(b" one\n")
    with pytest.raises(ConnectionError, match=r"tcp://127\.0\.0\.1:\d+: Connection refused"):
        writer.write(batch(["two"]))


@pytest.mark.parametrize(("closes", "cause"), [(True, "reset|Broken pipe"), (False, "timed out|acknowledged no byte")])
def test_a_receiver_that_does_not_read_a_batch_fails_it(closes: bool, cause: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address, options = f"tcp://127.0.0.1:{listener.getsockname()[1]}", {"timeout": "0.3s", "max_message_bytes": "16MiB"}
        writer = create_sink(address, **options).open(TASK)
        writer.sender.connect()
        connection = listener.accept()[0]

        def close_with_unread_bytes() -> None:
            connection.recv(1)
            connection.close()

        thread = threading.Thread(target=close_with_unread_bytes if closes else str)
        thread.start()
        with pytest.raises(ConnectionError, match=cause):
            writer.write(batch(["x" * (15 << 20)]))
        thread.join()
        connection.close()


# ── Lint ──


def test_lint_finds_names_fields_and_options_without_effect() -> None:
    incoming: Schema = pa.schema([("n", pa.int64())])
    options = {
        "facility": "locl0",
        "severity": "{level}",
        "structured_data": {"e": ["nn"]},
        "value_field": "m",
        "time_field": "n",
    }

    found = create_sink("udp://x:0", tls={}, format="rfc3164", framing="newline", **options).check(incoming)

    assert [(one.code, one.path) for one in found] == [
        ("bad-port", ("address",)),
        ("tls-unused", ("tls",)),
        ("unused-option", ("framing",)),
        ("unused-option", ("structured_data",)),
        ("invalid-value", ("facility",)),
        ("unknown-field", ("severity",)),
        ("unknown-field", ("structured_data", "e", 0)),
        ("unknown-field", ("value_field",)),
        ("wrong-type", ("time_field",)),
    ]
    assert [create_sink(f"{scheme}://x:1").guaranteed() for scheme in ("udp", "tls")] == ["none", "at least once"]
