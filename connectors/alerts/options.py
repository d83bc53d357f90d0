"""Options of the sinks that send messages to people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from connectors.alerts.committer import AlertCommitter, MessageSender
from connectors.alerts.rendering import Escape, render
from connectors.shared.text_template import TextTemplate, check_templates
from etl.api import Duration, Finding, Guarantee, Result, Schema, Sink, Staged, Task, visible


class MessageLimit(BaseModel):
    """The maximum number of messages in a span of time. Spans begin at multiples of ``every`` since 1970 UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: int = Field(default=60, ge=1, le=1000, description="Messages that are sent in a span.", examples=[5])
    every: Duration = Field(default=timedelta(hours=1), gt=timedelta(0), description="Length of a span.", examples=["1h"])


class AlertOptions(Sink):
    """Text, digest and limit."""

    text: str = Field(
        description="Text of an event; `{field}` is replaced.", min_length=1, examples=["{rule_name} on {host.name}: {message}"]
    )
    digest: bool = Field(default=True, description="One message for all events of a micro-batch, instead of one for each event.")
    max_events: int = Field(
        default=20, ge=1, le=1000, description="Events whose text is in a digest; it says how many others there are."
    )
    throttle: MessageLimit = Field(
        default=MessageLimit(), description="Messages that are sent in a time; the next says how many events were suppressed."
    )

    guarantee: ClassVar[Guarantee] = "at least once"

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check the fields of the templates, and options without effect."""
        yield from check_templates({(name,): text for name, (text, _) in self.templates().items()}, visible(incoming))
        if not self.digest and "max_events" in self.model_fields_set:
            hint = "leave it out, or digest: false"
            yield Finding("unused-option", "max_events is for digests", ("max_events",), hint, severity="warning")

    def templates(self) -> Mapping[str, tuple[str, Escape]]:
        """Return the templates by the name of their option, the text first, and how values are escaped in each."""
        raise NotImplementedError

    def open(self, task: Task) -> AlertWriter:
        """Return a writer that renders the events of a split which a message can contain; the driver sends them."""
        parsed = {name: (TextTemplate.parse(text), escape) for name, (text, escape) in self.templates().items()}
        max_rendered = self.max_events if self.digest else self.throttle.limit
        return AlertWriter(
            lambda batch: {name: render(one, batch, escape) for name, (one, escape) in parsed.items()}, max_rendered
        )

    def commit_messages(self, folder: str, sender: MessageSender) -> AlertCommitter:
        """Return what sends the messages, in the driver."""
        every = self.throttle.every.total_seconds()
        return AlertCommitter(folder, sender, self.digest, self.max_events, self.throttle.limit, every)


@dataclass
class AlertWriter:
    """Writer: renders the first ``max_rendered`` events and only counts the others. Memory: the rendered texts."""

    render: Callable[[pa.RecordBatch], Mapping[str, pa.Array]]
    max_rendered: int
    _texts: list[tuple[str, ...]] = field(default_factory=list, init=False)
    _events: int = field(default=0, init=False)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return None: only some events are rendered."""
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        """Render the events that a message can have."""
        shown = batch.slice(0, self.max_rendered - len(self._texts))
        if shown.num_rows:
            self._texts += zip(*(texts.to_pylist() for texts in self.render(shown).values()), strict=True)
        self._events += batch.num_rows
        return Result()

    def close(self) -> Staged | None:
        """Return the texts, which go to the driver with the receipt of the split."""
        return Staged("", 0, self._events, self._texts) if self._events else None

    def abort(self) -> None:
        """Do nothing: nothing was sent."""
