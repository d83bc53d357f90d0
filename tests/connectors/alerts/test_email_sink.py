"""The email sink, against aiosmtpd: a real SMTP server, with STARTTLS, TLS and login."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from pydantic import ValidationError
from servers.certificates import Certificates

from connectors.alerts.committer import AlertCommitter
from connectors.email.sink import EmailSink
from etl.api import OFFSET, BatchId, ComponentError, Staged, Task

PASSWORD = "hunter2-mail"
WRONG = "hunter2-wrong"
NOW = 1_795_852_800.0


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class Mailbox:
    """Keeps mails; ``answers`` are given instead, in their order, to RCPT and DATA."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.data_answers: list[str] = []
        self.recipient_answers: dict[str, str] = {}
        self.sessions: set[int] = set()
        self.port = 0

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.recipient_answers:
            return self.recipient_answers[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.data_answers and (answer := self.data_answers.pop(0)):
            return answer
        self.sessions.add(id(session))
        self.envelopes.append(envelope)
        return "250 accepted"

    @property
    def mails(self) -> list[EmailMessage]:
        return [message_from_bytes(bytes(one.content or b""), policy=policy.default) for one in self.envelopes]  # type: ignore[misc]


def log_in(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    return AuthResult(success=(data.login, data.password) == (b"u", PASSWORD.encode()), handled=False)


def server_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.certificate, certificates.server.key)
    return context


@contextmanager
def serving(**options: Any) -> Iterator[Mailbox]:
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=free_port(), ready_timeout=120, **options)
    controller.start()
    box.port = controller.port
    try:
        yield box
    finally:
        controller.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def box() -> Iterator[Mailbox]:
    with serving() as box:
        yield box


def create_sink(port: int, scheme: str = "smtp", **options: Any) -> EmailSink:
    given = {"server": f"{scheme}://127.0.0.1:{port}", "sender": "a@example.org", "to": ["b@example.org"], "encryption": "none"}
    values = {"type": "email", **given, "subject": "{s}", "text": "{m}", **options}
    return EmailSink.model_validate({name: value for name, value in values.items() if value is not None})


def stage(sink: EmailSink, *events: tuple[str, str]) -> Staged:
    subjects, texts = zip(*events, strict=True)
    batch = pa.RecordBatch.from_pydict({"s": subjects, "m": texts, OFFSET: range(len(events))})
    writer = sink.open(Task("p", "out", "split", "/nowhere", batch.schema))
    writer.write(batch)
    staged = writer.close()
    assert staged is not None
    return staged


def commit(sink: EmailSink, folder: Path, *events: tuple[str, str], number: int = 0) -> AlertCommitter:
    committer = sink.committer(str(folder))
    committer.clock = lambda: NOW
    committer.commit(BatchId("q", number), [stage(sink, *(events or [("subject", "text")]))])
    return committer


def test_a_digest_is_one_mail(box: Mailbox, tmp_path: Path) -> None:
    sink = create_sink(box.port, to=["b@example.org", "c@example.org"], cc=["c@example.org", "d@example.org"], max_events=2)

    commit(sink, tmp_path, ("disk full", "a\r\n\tb\x00\u202e"), ("other", ".\nFrom x"), ("third", "c"))

    (mail,), (envelope,) = box.mails, box.envelopes
    assert (envelope.mail_from, envelope.rcpt_tos) == ("a@example.org", ["b@example.org", "c@example.org", "d@example.org"])
    assert (mail["From"], mail["To"], mail["Cc"]) == (
        "a@example.org",
        "b@example.org, c@example.org",
        "c@example.org, d@example.org",
    )
    assert mail["Subject"] == "disk full (and 2 events more)"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content().splitlines() == ["a", "\tb", ".", "From x", "… and 1 more event"]


@pytest.mark.parametrize(
    "value",
    [
        "x\r\nBcc: evil@example.org",
        "x\nBcc: evil@example.org\n\nbody",
        "x\r.\r\nMAIL FROM:<e@x>",
        "x\x00\x0b\x0c\x1c\x85\u2028Bcc: e",
        "é" * 900,
    ],
)
def test_no_value_adds_a_header(box: Mailbox, tmp_path: Path, value: str) -> None:
    commit(create_sink(box.port, subject="[{s}]"), tmp_path, (value, value))

    (mail,) = box.mails
    assert len(box.envelopes) == 1
    assert box.envelopes[0].rcpt_tos == ["b@example.org"]
    assert set(mail.keys()) == {
        *(
            "From",
            "To",
            "Subject",
            "Message-ID",
            "Date",
            "Auto-Submitted",
            "MIME-Version",
            "Content-Type",
            "Content-Transfer-Encoding",
        ),
        *(name for name in mail if name.startswith("X-")),
    }
    assert str(mail["Subject"]).startswith("[x" if value[0] == "x" else "[é")
    assert len(str(mail["Subject"])) <= 200
    raw = bytes(box.envelopes[0].content or b"")
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))


def test_a_mail_that_is_sent_again_has_the_same_id(box: Mailbox, tmp_path: Path) -> None:
    for folder, number in (("a/out", 0), ("b/out", 0), ("c/out", 1), ("d/other", 0)):
        (tmp_path / folder).mkdir(parents=True)
        commit(create_sink(box.port), tmp_path / folder, number=number)

    first, again, later, other = (str(mail["Message-ID"]) for mail in box.mails)
    assert first == again
    assert len({first, later, other}) == 3
    assert first.endswith("@example.org>")


def test_mails_beyond_the_limit_are_counted_and_one_connection_sends_all(box: Mailbox, tmp_path: Path) -> None:
    sink = create_sink(box.port, digest=False, throttle={"limit": 2, "every": "1h"})

    committer = commit(sink, tmp_path, *[(f"s{n}", f"m{n}") for n in range(5)])
    committer.clock = lambda: NOW + 3600
    committer.commit(BatchId("q", 1), [stage(sink, ("s", "m"))])

    assert [mail["Subject"] for mail in box.mails] == ["s0", "s1", "s"]
    assert box.mails[2].get_content().splitlines() == ["m", "3 events before this message were suppressed."]


def test_starttls_tls_and_login(certificates: Certificates, tmp_path: Path) -> None:
    tls = {"authority": str(certificates.authority)}
    login = {"user": "u", "password": PASSWORD, "encryption": None, "tls": tls}
    context = server_context(certificates)

    with serving(tls_context=context, authenticator=log_in, auth_required=True) as box:
        commit(create_sink(box.port, **login), tmp_path)
        assert list(create_sink(box.port, **login).probe(pa.schema([]))) == []
        (finding,) = create_sink(box.port, **{**login, "password": WRONG}).probe(pa.schema([]))
        assert finding.code == "not-ready"
        with pytest.raises(ComponentError, match=r"535: the login is refused; .*check user and password") as refused:
            commit(create_sink(box.port, **{**login, "password": WRONG}), tmp_path, number=1)
        with pytest.raises(ComponentError, match=r"certificate is not accepted: .*; see tls\.authority"):
            commit(create_sink(box.port, **{**login, "tls": None}), tmp_path, number=1)
        assert len(box.mails) == 1
    assert WRONG not in str(refused.value)
    assert base64.b64encode(WRONG.encode()).decode() not in str(refused.value)

    with serving(ssl_context=context, authenticator=log_in, auth_require_tls=False) as box:
        commit(create_sink(box.port, "smtps", **login), tmp_path, number=2)
        assert len(box.mails) == 1


def test_a_server_without_starttls_gets_nothing(box: Mailbox, tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match=r"offers no STARTTLS: .* encryption: none"):
        commit(create_sink(box.port, encryption=None, user="u", password=PASSWORD), tmp_path)

    assert not box.envelopes


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ("451 try later", OSError, "answers 451: try later"),
        ("554 looks like\x1b[31m spam", ComponentError, "answers 554: looks like .*without loss"),
    ],
)
def test_what_the_server_answers_to_the_mail(
    box: Mailbox, tmp_path: Path, answer: str, error: type[Exception], words: str
) -> None:
    box.data_answers = [answer]
    sink = create_sink(box.port)

    with pytest.raises(error, match=words) as raised:
        commit(sink, tmp_path)
    commit(sink, tmp_path)

    assert "\x1b" not in str(raised.value)
    assert len(box.mails) == 1


def test_recipients_that_are_refused(box: Mailbox, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    box.recipient_answers = {"b@example.org": "550 nobody here"}

    with pytest.raises(ComponentError, match=r"no recipient is accepted: b@example\.org \(550: nobody here\)"):
        commit(create_sink(box.port), tmp_path)
    commit(create_sink(box.port, cc=["c@example.org"]), tmp_path)
    box.recipient_answers = {"b@example.org": "450 grey"}
    with pytest.raises(OSError, match="450"):
        commit(create_sink(box.port), tmp_path, number=1)

    assert "the mail is sent, but not to b@example.org (550: nobody here)" in caplog.text
    assert len(box.mails) == 1


def test_a_dead_server(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"smtp://127\.0\.0\.1:\d+: .*refused"):
        commit(create_sink(free_port()), tmp_path)


@contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that does what ``talk`` says with its one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    talk(connection)
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(120)


def drip(connection: socket.socket) -> None:
    connection.settimeout(0.05)
    while True:
        connection.sendall(b"220-x\r\n" if True else b"")
        try:
            if not connection.recv(100):
                return
        except TimeoutError:
            continue


@pytest.mark.parametrize(
    ("talk", "words"),
    [
        (drip, "no complete response within 0.5 s"),
        (lambda connection: connection.recv(1), "no complete response within 0.5 s"),
        (lambda connection: None, "it closed the connection"),
        (lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "answers -1|closed the connection"),
        (lambda connection: connection.sendall(b"421 busy\r\n"), "answers 421: busy"),
    ],
)
def test_a_server_that_does_not_speak_as_it_should(tmp_path: Path, talk: Any, words: str) -> None:
    with talking(talk) as port, pytest.raises(OSError, match=words):
        commit(create_sink(port, timeout="500ms"), tmp_path)


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"subject": "{x}"}, "unknown-field", ("subject",)),
        ({"text": "{x}"}, "unknown-field", ("text",)),
        ({"subject": "a\nb"}, "invalid-value", ("subject",)),
        ({"password": "x"}, "missing-user", ("password",)),
        ({"user": "u", "password": "x", "encryption": "none"}, "invalid-value", ("encryption",)),
        ({"server": "smtps://x", "encryption": "none"}, "invalid-value", ("encryption",)),
        ({"server": "smtp://x:99999"}, "bad-port", ("server",)),
        ({"encryption": "none", "tls": {}}, "tls-unused", ("tls",)),
        ({"digest": False, "max_events": 5}, "unused-option", ("max_events",)),
    ],
)
def test_what_lint_finds(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    sink = create_sink(1, **{"encryption": None, **options})

    (finding,) = sink.check(pa.schema({"s": pa.string(), "m": pa.string()}))

    assert (finding.code, finding.path) == (code, path)


@pytest.mark.parametrize("address", ["a@b\r\nBcc: c@d", "A <a@b.example>", "a b@c", "a@", "é@b.example", "a@b>,<c@d", "{to}@b"])
def test_addresses_are_plain(address: str) -> None:
    with pytest.raises(ValidationError):
        create_sink(1, to=[address])
