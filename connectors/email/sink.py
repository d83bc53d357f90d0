"""The ``email`` sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from connectors.alerts.committer import AlertCommitter
from connectors.alerts.options import AlertOptions
from connectors.alerts.rendering import Escape, one_line, plain_text
from connectors.email.mails import MailFrame
from connectors.email.sender import MailSender, SmtpServer
from connectors.http.connection_settings import check_login
from connectors.shared.tls import ClientTls
from etl.api import ComponentError, Duration, Finding, Schema

MailAddress = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`|~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$",
        max_length=254,
        json_schema_extra={"patternErrorMessage": "is not an address of mail: name@example.org, without a name before it"},
    ),
]
ServerUrl = Annotated[
    str,
    Field(
        pattern=r"^smtps?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$",
        json_schema_extra={"patternErrorMessage": "is not a mail server: smtp://HOST:PORT, or smtps://HOST:PORT"},
    ),
]
PORTS = {"smtp": 587, "smtps": 465}


class EmailSink(AlertOptions):
    """Send alerts as mails by SMTP, with a digest of each micro-batch in one mail.

    At least once: a mail is sent again only if the server's response was lost, or if the run was killed after the server had
    it and before this was recorded. It has the same ``Message-ID`` then, which is made of the micro-batch, so that mail
    servers and readers can recognise it. The driver sends the mails, one at a time, when all splits of a micro-batch are
    written; so the limit counts the mails of all splits, also across restarts.

    ``{field}`` in ``subject`` and ``text`` is replaced by the value of a field; null is `-`. Control characters and newlines of
    values become spaces in the subject, so that no value can add a header; in the text newlines stay. Mails are plain text in
    UTF-8 without HTML. Addresses are constants: no event decides who gets a mail.

    With ``digest`` a micro-batch gives one mail with the first ``max_events`` events that fit into ``max_length``, and the number
    of the others; its subject is that of the first event with the number of the others. ``throttle`` and what it suppresses
    are as in the sink `chat`.

    The connection is encrypted: by STARTTLS (``smtp://``, port 587), which must succeed, or by TLS from the beginning
    (``smtps://``, port 465). ``encryption: none`` is for a relay on the same machine, and allows no password. Temporary answers
    (400 to 499) and lost connections are retried as ``retry`` says; meanwhile the query waits, or its events wait on disk
    with ``on_failure: spool``. Other answers end the run without loss, because there are no dead letters. If the server refuses
    some of the recipients, the others get the mail, and a warning names those.

    Tested against aiosmtpd, a real SMTP server, with STARTTLS, TLS and login.

    ```yaml
    type: email
    server: smtp://mail.example.org:587
    user: alerts@example.org
    password: ${MAIL_PASSWORD:-change-me}
    sender: alerts@example.org
    to: [ops@example.org]
    subject: "{rule_name} on {host.name}"
    text: "{timestamp} {host.name} {message}"
    throttle: {limit: 10, every: 1h}
    ```
    """

    type: Literal["email"] = "email"
    server: ServerUrl = Field(
        description="URL of the mail server: smtp:// (port 587) or smtps:// (port 465).", examples=["smtp://mail.example.org:587"]
    )
    encryption: Literal["required", "none"] = Field(
        default="required", description="Whether smtp:// needs STARTTLS; none sends in clear text."
    )
    tls: ClientTls | None = Field(default=None, description="Certificates.")
    user: str | None = Field(default=None, description="User name; needs `password`.")
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${MAIL_PASSWORD}"])
    sender: MailAddress = Field(description="Address of the sender.", examples=["alerts@example.org"])
    to: tuple[MailAddress, ...] = Field(description="Addresses of the recipients.", min_length=1, examples=[["ops@example.org"]])
    cc: tuple[MailAddress, ...] = Field(
        default=(), description="Addresses of those who get a copy.", examples=[["soc@example.org"]]
    )
    subject: str = Field(description="Subject; `{field}` is replaced.", min_length=1, examples=["{rule_name} on {host.name}"])
    max_length: int = Field(default=100_000, ge=1000, le=10_000_000, description="Longest text of a mail in characters.")
    timeout: Duration = Field(default=timedelta(seconds=30), description="How long sending a mail may take.", gt=timedelta(0))

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check the server, the login, and the fields of the templates."""
        yield from super().check(incoming)
        yield from check_login(self.user, self.password, {})
        try:
            _ = urlsplit(self.server).port
        except ValueError as error:
            yield Finding("bad-port", f"the URL cannot be used: {error}", ("server",))
        if any(not one.isprintable() for one in self.subject):
            yield Finding("invalid-value", "a subject has one line without control characters", ("subject",))
        is_tls = self.server.startswith("smtps:")
        if is_tls and self.encryption == "none":
            yield Finding("invalid-value", "smtps:// is encrypted", ("encryption",), "leave it out, or write smtp://")
        elif self.encryption == "none" and self.password is not None:
            yield Finding("invalid-value", "the password would be sent in clear text", ("encryption",), "leave it out")
        if self.tls is not None:
            yield from self.tls.check("tls")
            if self.encryption == "none":
                yield Finding("tls-unused", "tls is set, but encryption is none", ("tls",), severity="warning")

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the server responds and accepts the login; no mail is sent."""
        try:
            self.mail_sender().probe()
        except ComponentError as error:
            yield Finding("not-ready", str(error), ("server",))

    def templates(self) -> Mapping[str, tuple[str, Escape]]:
        """Return text and subject."""
        return {"text": (self.text, plain_text), "subject": (self.subject, one_line)}

    def mail_sender(self) -> MailSender:
        """Return what sends the mails."""
        url = urlsplit(self.server)
        starttls: Literal["starttls", "none"] = "starttls" if self.encryption == "required" else "none"
        server = SmtpServer(
            url.hostname or "",
            url.port or PORTS[url.scheme],
            "tls" if url.scheme == "smtps" else starttls,
            self.tls,
            self.user,
            self.password,
            self.timeout.total_seconds(),
        )
        return MailSender(server, MailFrame(self.sender, self.to, self.cc, self.max_length))

    def committer(self, folder: str) -> AlertCommitter:
        """Send mails from the driver."""
        return self.commit_messages(folder, self.mail_sender())
