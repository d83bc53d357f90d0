"""The ``chat`` sink."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Literal

from pydantic import Field, SecretStr

from connectors.alerts.committer import AlertCommitter
from connectors.alerts.options import AlertOptions
from connectors.alerts.rendering import Escape
from connectors.chat.sender import WebHook, split_url
from connectors.chat.services import MIN_LENGTH, SERVICES, Service
from connectors.http.connection_settings import ConnectionSettings
from connectors.http.statuses import Status, Statuses
from connectors.http.urls import check_urls
from connectors.shared.tls import ClientTls
from etl.api import Duration, Finding, Schema

_URL = re.compile(r"https?://[^\s/?#]+([/?][^\s#]*)?")


class ChatSink(AlertOptions):
    """Send alerts as messages to Slack, Teams, Discord, Mattermost, or a web hook that takes a text.

    At least once: a message is sent again only if its response was lost, or if the run was killed after the service had it and
    before this was recorded. The driver sends the messages, one at a time, when all splits of a micro-batch are written; so
    the limit counts the messages of all splits, also across restarts.

    ``{field}`` in ``text`` is replaced by the value of a field; null is `-`. Markup of the template acts as the service
    defines it, that of values does not: characters are escaped, and zero width spaces break mentions (`@channel`,
    `@everyone`), addresses and names of emojis, so that an event can neither call people nor set a link. Newlines and other
    control characters of values become spaces. For ``generic`` only these do: the receiver gets
    ``{"text": …, "events": …, "suppressed": …}`` and the header ``Idempotency-Key``.

    With ``digest`` a micro-batch gives one message with the first ``max_events`` events that fit, one a line, and the number
    of the others. Without it each event is a message. A message has at most ``max_length`` characters; what is longer is cut
    with an ellipsis. ``throttle`` limits messages for the whole sink; events beyond it are suppressed, and the next message
    says how many. Their number waits for it, also across restarts. To limit the alerts of each host or rule, put the
    step `suppress` or `throttle` with ``keys`` before the sink. What is suppressed or only counted is in no message: write
    alerts that must be kept to another sink too.

    Statuses in ``retry_on`` and lost connections are retried as ``retry`` says, but not before the time in ``Retry-After``
    (at most ``retry.max_backoff``); meanwhile the query waits, or its events wait on disk with ``on_failure: spool``. Any
    other status ends the run without loss: it means that the web hook is wrong or removed. There are no dead letters.

    Tested against a test server that answers as these services document it; not against the services.

    ```yaml
    type: chat
    service: slack
    url: ${SLACK_WEBHOOK:-https://hooks.slack.com/services/T000/B000/change-me}
    text: "*{rule_name}* on {host.name}: {message}"
    throttle: {limit: 5, every: 1h}
    on_failure: spool
    ```
    """

    type: Literal["chat"] = "chat"
    service: Service = Field(description="What receives the messages.")
    url: SecretStr = Field(
        description="URL of the web hook. Whoever has it can send messages, so it is a secret.", examples=["${SLACK_WEBHOOK}"]
    )
    max_length: int | None = Field(
        default=None,
        ge=MIN_LENGTH,
        le=1_000_000,
        description="Longest message in characters; default: 4,000, for Discord 2,000. Services accept at most: slack 40,000, "
        "teams 6,900, discord 2,000, mattermost 16,383.",
    )
    tls: ClientTls | None = Field(default=None, description="Certificates, for https URLs.")
    timeout: Duration = Field(
        default=timedelta(seconds=15), description="How long a request and its response may take.", gt=timedelta(0)
    )
    retry_on: tuple[Status, ...] = Field(
        default=(408, 425, 429, "5xx"), description="Statuses that are temporary.", examples=[[429, "5xx"]]
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check the URL, the fields of the text, and that the service accepts such long messages."""
        yield from super().check(incoming)
        url = self.url.get_secret_value()
        if _URL.fullmatch(url):
            yield from check_urls([url], self.tls, "url")
        else:
            yield Finding("invalid-value", "url is not a URL", ("url",), "write https://… as the service shows it")
        max_length = SERVICES[self.service].max_length
        if self.max_length is not None and self.max_length > max_length:
            yield Finding("maximum", f"{self.max_length:,} is more than {self.service} accepts, {max_length:,}", ("max_length",))

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the server responds; no message is sent."""
        for problem in self.web_hook().probe():
            yield Finding("not-ready", problem, ("url",))

    def templates(self) -> Mapping[str, tuple[str, Escape]]:
        """Return the text."""
        return {"text": (self.text, SERVICES[self.service].escape)}

    def web_hook(self) -> WebHook:
        """Return the web hook."""
        server, target = split_url(self.url.get_secret_value())
        settings = ConnectionSettings((server,), self.timeout.total_seconds(), self.tls)
        return WebHook(settings, target, SERVICES[self.service], Statuses(self.retry_on, ()), self.max_length, self.text)

    def committer(self, folder: str) -> AlertCommitter:
        """Send messages from the driver."""
        return self.commit_messages(folder, self.web_hook())
