"""A family of correlations in one group, from batch to batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from etl.rules.correlation.families import Family
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.windows import Alert, Event, Memory, advance, due

Part = tuple[str, ...]
"""The values of a member's own group fields; the head's are those of the whole group."""


@dataclass
class Group:
    """What a family remembers of one group: of each member and part."""

    memories: dict[tuple[str, Part], Memory] = field(default_factory=dict)

    def advance(self, family: Family, watermark: int) -> list[Alert]:
        """Alerts of the family's head, after events were put into its memories."""
        coming: dict[tuple[str, Part], list[Event]] = {}
        alerts: list[Alert] = []
        for member in family.members:
            places = dict.fromkeys((*(place for place in self.memories if place[0] == member.id), *_of(member, coming)))
            for place in places:
                memory = self.memories.setdefault(place, Memory())
                found = advance(member, memory, coming.get(place, ()), watermark)
                for above in family.above(member):
                    into = coming.setdefault((above.id, _part_above(above, member, place[1])), [])
                    into += (_event(above, member, alert) for alert in found)
                alerts = found if member is family.head else alerts
        self.memories = {place: memory for place, memory in self.memories.items() if memory.events}
        return alerts

    def ends(self, family: Family) -> Iterator[tuple[bool, int]]:
        """Of each memory whether it is judged with each event, and the watermark at which to look at it again."""
        members = {member.id: member for member in family.members}
        for (member, _), memory in self.memories.items():
            time = due(members[member], memory)
            if time is not None:
                yield members[member].rising, time


def _of(member: Correlation, places: Iterable[tuple[str, Part]]) -> Iterator[tuple[str, Part]]:
    return (place for place in places if place[0] == member.id)


def _part_above(above: Correlation, member: Correlation, part: Part) -> Part:
    values = dict(zip(member.group_by, part, strict=True))
    return tuple(values[above.field_of(name, member.id)] for name in above.group_by)


def _event(above: Correlation, member: Correlation, alert: Alert) -> Event:
    """An alert as an event of the correlation that builds on it, at the time of its last event."""
    sample = alert.samples[0] if alert.samples else None
    return Event(alert.last_micros, 0, above.rules.index(member.id), member.id, None, sample)
