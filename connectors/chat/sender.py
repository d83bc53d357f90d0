"""Sends messages to a web hook, whose URL is a secret: no message of ours contains its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote

from connectors.alerts.messages import Message
from connectors.chat.services import ChatService
from connectors.http.connection_settings import ConnectionSettings
from connectors.http.statuses import Statuses
from connectors.http.urls import parse_url
from etl.api import ComponentError, RetryAfterError

if TYPE_CHECKING:
    from connectors.http.client import Client
    from connectors.http.connection import Response

MASK = "***"
MIN_MASKED = 4
"""Shortest part of a path that is masked; `api` and `v1` say nothing, but a shorter one would be in every word."""

REDIRECT = "it redirects, which is not followed; write the URL to which it does"


@dataclass(frozen=True)
class WebHook:
    """One web hook."""

    settings: ConnectionSettings
    """Its server, without the path."""
    target: str = field(repr=False)
    """Path and query."""
    service: ChatService
    statuses: Statuses
    max_length: int | None
    template: str

    @cached_property
    def client(self) -> Client:
        """The connection, opened on demand."""
        from connectors.http.client import Client

        return Client(self.settings)

    def send(self, message: Message) -> None:
        """Send one message. Raises OSError, RetryAfterError, ComponentError."""
        body = self.service.body(message, self.max_length, self.template)
        headers = {self.service.key_header: message.id} if self.service.key_header else {}
        response = self.client.request("POST", self.target, body, "application/json", headers)
        handling = self.statuses.handling(response.status)
        if handling == "done":
            return
        if handling == "retry":
            from connectors.http.writer import parse_retry_after

            raise RetryAfterError(self.describe(response), parse_retry_after(response.headers.get("retry-after")))
        raise ComponentError(
            f"{self.describe(response)}; the run ends, because the service refuses all messages of this web hook or this one for "
            "good: check the URL and the service, and start again; nothing is lost"
        )

    def describe(self, response: Response) -> str:
        """Return server, status and reason, without the parts of the path, which a server may repeat."""
        if 300 <= response.status < 400:
            return f"{response.server} answers {response.status}: {REDIRECT}"
        return mask(response.describe(), self.target)

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def probe(self) -> Iterator[str]:
        """Yield why the web hook cannot be used, without sending a message. Raises OSError, ComponentError."""
        from connectors.http.client import Client

        client = Client(replace(self.settings, timeout=min(self.settings.timeout, 5.0)))
        try:
            response = client.request("OPTIONS", self.target)
            if response.status in (401, 403) or 300 <= response.status < 400:
                yield self.describe(response)
        finally:
            client.close()


def split_url(url: str) -> tuple[str, str]:
    """Return the server of a URL, and its path with the query. Raises ValueError for an impossible port."""
    parsed = parse_url(url)
    return str(parsed), parsed.target


def mask(text: str, target: str) -> str:
    """Replace parts of a path in a text."""
    for part in sorted(_parts(target), key=len, reverse=True):
        text = text.replace(part, MASK)
    return text


def _parts(target: str) -> Iterable[str]:
    whole = {target, unquote(target)}
    pieces = {piece for one in whole for piece in one.replace("?", "/").replace("&", "/").replace("=", "/").split("/")}
    return {part for part in whole | pieces if len(part) >= MIN_MASKED and part not in ("services", "webhooks", "hooks")}
