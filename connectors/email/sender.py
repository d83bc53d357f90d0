"""Sends mails to an SMTP server.

Uses the standard library's `smtplib`: the driver sends one mail at a time and waits for its response, so an asynchronous client
would only need a loop, and no package is needed.
"""

from __future__ import annotations

import logging
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import SecretStr

from connectors.alerts.messages import Message
from connectors.email.mails import MailFrame
from connectors.shared.tls import ClientTls
from etl.api import ComponentError, cut

log = logging.getLogger("sluice.sink.email")

Encryption = Literal["tls", "starttls", "none"]
Refusals: TypeAlias = Mapping[str, tuple[int, bytes]]

MAX_REASON = 200

T = TypeVar("T")


class SmtpServer(NamedTuple):
    """A server, and how it is used. Its repr shows no secret."""

    host: str
    port: int
    encryption: Encryption
    tls: ClientTls | None
    user: str | None
    password: SecretStr | None
    timeout: float
    """Seconds for a whole mail."""

    def __str__(self) -> str:
        scheme = "smtps" if self.encryption == "tls" else "smtp"
        return f"{scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass
class MailSender:
    """Sends the mails of a micro-batch over one connection."""

    server: SmtpServer
    frame: MailFrame
    _client: smtplib.SMTP | None = None

    def send(self, message: Message) -> None:
        """Send one mail. Raises OSError for what is temporary (4yz), ComponentError for the rest."""
        mail = self.frame.mail(message)
        with self._errors():
            client = self._connect()
            refused = self._in_time(lambda: client.send_message(mail, self.frame.sender, self.frame.recipients))
        if refused:
            log.warning("%s: the mail is sent, but not to %s", self.server, _refusals(refused))

    def probe(self) -> None:
        """Connect and log in. Raises OSError, ComponentError."""
        with self._errors():
            self._connect()
        self.close()

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(OSError):
                self._in_time(client.quit, client)
            client.close()

    def _connect(self) -> smtplib.SMTP:
        """Return the connection, made and logged in if there is none."""
        if self._client is not None:
            return self._client
        server = self.server
        context = None if server.encryption == "none" else (server.tls or ClientTls()).context()
        options: dict[str, Any] = {"local_hostname": self.frame.domain, "timeout": server.timeout}
        client = smtplib.SMTP_SSL(context=context, **options) if server.encryption == "tls" else smtplib.SMTP(**options)
        client._host = server.host  # type: ignore[attr-defined]  # the name that TLS checks, which only the constructor sets
        self._client = client
        self._in_time(lambda: self._log_in(client, context))
        return client

    def _log_in(self, client: smtplib.SMTP, context: ssl.SSLContext | None) -> None:
        server = self.server
        code, greeting = client.connect(server.host, server.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, greeting)
        if server.encryption == "starttls":
            client.starttls(context=context)
        client.ehlo_or_helo_if_needed()
        if server.user is not None:
            client.login(server.user, server.password.get_secret_value() if server.password else "")

    def _in_time(self, call: Callable[[], T], client: smtplib.SMTP | None = None) -> T:
        """Return what a call returns; after the timeout the connection breaks, even if the server sends byte by byte."""
        client = client or self._client
        is_over = threading.Event()

        def interrupt() -> None:
            is_over.set()
            if client is not None and client.sock is not None:
                with suppress(OSError):
                    socket.socket.shutdown(client.sock, socket.SHUT_RDWR)  # that of TLS would wait for the peer

        timer = threading.Timer(self.server.timeout, interrupt)
        timer.daemon = True
        timer.start()
        try:
            return call()
        except OSError as error:
            if is_over.is_set() or isinstance(error.__context__, TimeoutError):  # the socket's own, at the same moment
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
            timer.join()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of the body that name the server, say whether they are temporary, and close the connection."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                self._abort()
            raise self._explain(error) from error
        except ComponentError:
            self._abort()
            raise

    def _abort(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _explain(self, error: OSError) -> Exception:
        server = self.server
        match error:
            case smtplib.SMTPRecipientsRefused():
                codes = [code for code, _ in error.recipients.values()]
                return self._refused(min(codes), f"no recipient is accepted: {_refusals(error.recipients)}", "check to and cc")
            case smtplib.SMTPSenderRefused():
                return self._refused(error.smtp_code, f"the sender is refused: {_reason(error.smtp_error)}", "check sender, user")
            case smtplib.SMTPAuthenticationError():
                return self._refused(error.smtp_code, "the login is refused", "check user and password")
            case smtplib.SMTPResponseException():
                return self._refused(error.smtp_code, _reason(error.smtp_error), "check the server and the mail")
            case smtplib.SMTPNotSupportedError():
                what = "no login" if self.server.user and "AUTH" in str(error) else "no STARTTLS"
                advice = "check the port; STARTTLS is usual on 587, smtps:// on 465; a server without TLS needs encryption: none"
                return ComponentError(f"{server} offers {what}: {advice}")
            case smtplib.SMTPServerDisconnected():
                return ConnectionError(f"{server}: it closed the connection")
            case ssl.SSLCertVerificationError():
                return ComponentError(
                    f"{server}: the server's certificate is not accepted: {error.verify_message}; "
                    "see tls.authority and tls.verify"
                )
            case ssl.SSLEOFError():
                return ConnectionError(f"{server}: it closed the connection")
            case ssl.SSLError():
                advice = "smtps:// is usual on port 465, smtp:// with STARTTLS on 587"
                return ComponentError(f"{server}: no TLS connection: {error.reason or error}; {advice}")
            case TimeoutError():
                return ConnectionError(f"{server}: no complete response within {server.timeout:g} s")
        return ConnectionError(f"{server}: {error.strerror or error}")

    def _refused(self, code: int, reason: str, advice: str) -> Exception:
        text = f"{self.server} answers {code}: {reason}"
        if code < 500:
            return ConnectionError(text)
        return ComponentError(f"{text}; the run ends without loss: {advice}, and start again")


def _refusals(refused: Refusals) -> str:
    return ", ".join(f"{address} ({code}: {_reason(reason)})" for address, (code, reason) in refused.items())


def _reason(answer: bytes | str) -> str:
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    text = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return cut(text, MAX_REASON)
