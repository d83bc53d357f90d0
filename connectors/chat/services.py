"""What each service accepts: its payload, its longest message, and how values are escaped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from connectors.alerts.messages import Message
from connectors.alerts.rendering import Escape, markdown, one_line, slack

Service = Literal["slack", "teams", "discord", "mattermost", "generic"]

MIN_LENGTH = 200
"""Shortest limit of a message: room for an event, and for how many are suppressed."""

Payload = Callable[[str, Message, str], Any]
"""Text, message and the template → the JSON of a request."""


class ChatService(NamedTuple):
    """A service. Lengths are units of UTF-16, in which no service counts more than these."""

    payload: Payload
    escape: Escape
    max_length: int
    """Longest text that the service accepts."""
    length: int
    """Longest text that a reader wants, where the option does not say."""
    separator: str = "\n"
    """What begins a new line."""
    key_header: str | None = None
    """Header that identifies a message."""

    def body(self, message: Message, max_length: int | None, template: str) -> bytes:
        """Return the request's body."""
        text = message.compose(max_length or self.length, self.separator)
        return json.dumps(self.payload(text, message, template), ensure_ascii=False).encode(errors="replace")


def _slack(text: str, message: Message, template: str) -> Any:
    return {"text": text, "parse": "none", "link_names": False, "unfurl_links": False, "unfurl_media": False}


def _teams(text: str, message: Message, template: str) -> Any:
    block = {"type": "TextBlock", "text": text, "wrap": True}
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [block],
    }
    return {
        "type": "message",
        "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}],
    }


_SUPPRESS_EMBEDS = 1 << 2


def _discord(text: str, message: Message, template: str) -> Any:
    marks_of_kinds = {"everyone": ("@everyone", "@here"), "roles": ("<@&",), "users": ("<@",)}
    parse = [kind for kind, marks in marks_of_kinds.items() if any(mark in template for mark in marks)]
    return {"content": text, "allowed_mentions": {"parse": parse}, "flags": _SUPPRESS_EMBEDS}


def _mattermost(text: str, message: Message, template: str) -> Any:
    return {"text": text, "props": {"disable_group_highlight": True}}


def _generic(text: str, message: Message, template: str) -> Any:
    return {"text": text, "events": message.events, "suppressed": message.suppressed}


SERVICES: Mapping[Service, ChatService] = {
    "slack": ChatService(_slack, slack, 40_000, 4000),
    "teams": ChatService(_teams, markdown, 6900, 4000, "\n\n"),  # 28 KB a card, and up to 4 bytes a character
    "discord": ChatService(_discord, markdown, 2000, 2000),
    "mattermost": ChatService(_mattermost, markdown, 16_383, 4000),
    "generic": ChatService(_generic, one_line, 1_000_000, 4000, key_header="Idempotency-Key"),
}
