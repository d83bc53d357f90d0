"""A message as a mail: its headers, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import NamedTuple

from connectors.alerts.messages import Message, count_events, truncate

MAX_SUBJECT = 200
"""Longest subject in characters, before the number of further events."""


class MailFrame(NamedTuple):
    """What all mails of a sink have in common."""

    sender: str
    to: Sequence[str]
    cc: Sequence[str]
    max_length: int
    """Longest text in characters."""

    @property
    def domain(self) -> str:
        """Domain of the sender."""
        return self.sender.rpartition("@")[2]

    @property
    def recipients(self) -> Sequence[str]:
        """Addresses for the envelope, each once."""
        return tuple(dict.fromkeys((*self.to, *self.cc)))

    def mail(self, message: Message) -> EmailMessage:
        """Return the mail. It has the same Message-ID each time the message is sent. Its text is Base64: no line of it is a
        header, a boundary or the end of the data for any server.
        """
        _, subject = message.texts[0]
        rest = f" (and {count_events(message.events - 1)} more)" if message.events > 1 else ""
        mail = EmailMessage(policy=SMTP)
        mail["From"] = _address(self.sender)
        mail["To"] = [_address(one) for one in self.to]
        if self.cc:
            mail["Cc"] = [_address(one) for one in self.cc]
        mail["Subject"] = truncate(subject, MAX_SUBJECT) + rest
        mail["Message-ID"] = f"<{message.id}@{self.domain}>"
        mail["Date"] = formatdate()
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.compose(self.max_length) + "\n", cte="base64")
        return mail


def _address(text: str) -> Address:
    return Address(addr_spec=text)
