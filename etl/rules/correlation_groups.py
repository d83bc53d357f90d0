"""A family of correlations in one group, from batch to batch, and its memory as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from etl.rules.correlation import Correlation
from etl.rules.correlation_families import Family
from etl.rules.correlation_windows import Alert, Event, Memory, advance, due

Part = tuple[str, ...]
"""The values of a member's own group fields; the head's are those of the whole group."""


@dataclass
class Group:
    """What a family remembers of one group: of each member and part."""

    memories: dict[tuple[str, Part], Memory] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Group:
        """The memory that `written` gave."""
        found = {}
        for member, part, events, bursts in json.loads(text):
            memory = Memory([Event(*event) for event in events], [(since, last) for since, last in bursts])
            found[member, tuple(part)] = memory
        return cls(found)

    def written(self) -> str:
        """As JSON; empty when there is nothing to remember."""
        rows = [(member, part, memory.events, memory.bursts) for (member, part), memory in self.memories.items()]
        return json.dumps(rows, separators=(",", ":")) if rows else ""

    def advance(self, family: Family, events: Mapping[tuple[str, Part], list[Event]], watermark: int) -> list[Alert]:
        """Alerts of the family's head, after further events of its members' groups."""
        coming = {place: list(some) for place, some in events.items()}
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
        known = {member.id for member in family.members}
        self.memories = {place: memory for place, memory in self.memories.items() if memory.events and place[0] in known}
        return alerts

    def due(self, family: Family) -> int | None:
        """The watermark at which to look again."""
        members = {member.id: member for member in family.members}
        times = (due(members[member], memory) for (member, _), memory in self.memories.items())
        return min((time for time in times if time is not None), default=None)


def _of(member: Correlation, places: Iterable[tuple[str, Part]]) -> Iterator[tuple[str, Part]]:
    return (place for place in places if place[0] == member.id)


def _part_above(above: Correlation, member: Correlation, part: Part) -> Part:
    values = dict(zip(member.group_by, part, strict=True))
    return tuple(values[above.field_of(name, member.id)] for name in above.group_by)


def _event(above: Correlation, member: Correlation, alert: Alert) -> Event:
    """An alert as an event of the correlation that builds on it, at the time of its last event."""
    sample = alert.samples[0] if alert.samples else None
    return Event(alert.last_micros, 0, above.rules.index(member.id), member.id, None, sample)
