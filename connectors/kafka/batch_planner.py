"""Plans the next micro-batch: from the end of the last one to what the cluster holds now, within a limit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from connectors.kafka import topics
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.offset_ranges import OffsetRanges, TopicRange, max_batch_events, share_fairly
from connectors.kafka.topics import Partition, Topic
from etl.api import ComponentError, Limit

log = logging.getLogger("sluice.kafka")

_reported_losses: set[str] = set()
"""Losses already reported: a batch is planned many times while there is nothing new."""

OnLoss = Literal["fail", "earliest"]


@dataclass(frozen=True)
class BatchPlanner:
    """Finds the next offset ranges; treats messages that were deleted before they were read as ``on_loss`` says."""

    settings: ClientSettings
    is_committed: bool
    on_loss: OnLoss

    def plan(self, begin: OffsetRanges, found: Mapping[str, Topic], limit: Limit) -> OffsetRanges:
        """Return the next batch; ``begin`` itself if there is nothing new. Memory: a few words for each partition."""
        known = self._last_ends(begin, found)
        partitions = [(name, number) for name, topic in found.items() for number in range(topic.partitions)]
        ends = topics.fetch_end_offsets(self.settings, partitions, self.is_committed)
        new = [partition for partition in partitions if partition not in known]
        known |= topics.fetch_begin_offsets(self.settings, new)
        begins = self._begins(known, ends, set(new))
        if limit.until is not None:
            until = OffsetRanges.from_offset(limit.until).ends()
            ends = {partition: min(end, until.get(partition, begins[partition])) for partition, end in ends.items()}
        available = {partition: end - begins[partition] for partition, end in ends.items() if end > begins[partition]}
        if not available:
            return begin
        granted = share_fairly(available, max_batch_events(limit))
        return OffsetRanges({name: _topic_range(name, topic, begins, granted) for name, topic in found.items()})

    def _last_ends(self, begin: OffsetRanges, found: Mapping[str, Topic]) -> dict[Partition, int]:
        """Return the end of the last batch, for partitions that are still the same."""
        known = begin.ends()
        for name, one in begin.topics.items():
            now = found.get(name)
            if now is not None and one.id in ("", now.id) and len(one.ends) <= now.partitions:
                continue
            what = "no longer exists" if now is None else "was deleted and created again"
            self._report_loss(f"topic {name!r} {what}: it had been read up to {_format_ends(one.ends)}")
            known = {partition: offset for partition, offset in known.items() if partition[0] != name}
        return known

    def _begins(self, known: Mapping[Partition, int], ends: Mapping[Partition, int], new: set[Partition]) -> dict[Partition, int]:
        """Return where to continue: the end of the last batch, or the first message if that offset no longer exists."""
        moved = [partition for partition, end in ends.items() if partition not in new and end != known[partition]]
        first = topics.fetch_begin_offsets(self.settings, moved)
        begins = dict(known)
        for (name, number), low in first.items():
            at, end = known[name, number], ends[name, number]
            if at < low:
                self._report_loss(f"{name}/{number}: messages {at:,} to {low - 1:,} expired before they were read")
                begins[name, number] = low
            elif at > end:
                self._report_loss(
                    f"{name}/{number} ends at {end:,}, but had been read up to {at:,}: messages were removed at its end"
                )
                begins[name, number] = low
        return begins

    def _report_loss(self, text: str) -> None:
        if self.on_loss == "fail":
            raise ComponentError(
                f"kafka {self.settings.servers}: {text}; on_data_loss: earliest continues with the first message that exists"
            )
        if text not in _reported_losses:
            _reported_losses.add(text)
            log.warning("kafka %s: %s; continuing with the first message that exists", self.settings.servers, text)


def _topic_range(name: str, topic: Topic, begins: Mapping[Partition, int], granted: Mapping[Partition, int]) -> TopicRange:
    partitions = [(name, number) for number in range(topic.partitions)]
    return TopicRange(
        topic.id,
        tuple(begins[partition] for partition in partitions),
        tuple(begins[partition] + granted.get(partition, 0) for partition in partitions),
    )


def _format_ends(ends: tuple[int, ...]) -> str:
    return ", ".join(f"{number}: {end:,}" for number, end in enumerate(ends))
