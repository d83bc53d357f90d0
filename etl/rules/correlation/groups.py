"""A family of correlations in one group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from etl.rules.correlation.families import Family
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.windows import Alert, Event, WindowState, advance, next_deadline

Part = tuple[str, ...]
"""The values of a member's own group fields; the head's are those of the whole group."""


@dataclass
class Group:
    """The state of a family in one group: one for each member and part."""

    states: dict[tuple[str, Part], WindowState] = field(default_factory=dict)

    def advance(self, family: Family, watermark: int) -> list[Alert]:
        """Process the events in the states. Returns the alerts of the family's head."""
        coming: dict[tuple[str, Part], list[Event]] = {}
        alerts: list[Alert] = []
        for member in family.members:
            keys = dict.fromkeys((*(key for key in self.states if key[0] == member.id), *_keys_of(member, coming)))
            for key in keys:
                state = self.states.setdefault(key, WindowState())
                found = advance(member, state, coming.get(key, ()), watermark)
                for above in family.above(member):
                    into = coming.setdefault((above.id, _part_above(above, member, key[1])), [])
                    into += (_as_event(above, member, alert) for alert in found)
                alerts = found if member is family.head else alerts
        self.states = {key: state for key, state in self.states.items() if state.events}
        return alerts

    def deadlines(self, family: Family) -> Iterator[tuple[bool, int]]:
        """For each state, whether its condition is monotonic, and the watermark at which to process it again."""
        members = {member.id: member for member in family.members}
        for (member, _), state in self.states.items():
            time = next_deadline(members[member], state)
            if time is not None:
                yield members[member].is_monotonic, time


def _keys_of(member: Correlation, keys: Iterable[tuple[str, Part]]) -> Iterator[tuple[str, Part]]:
    return (key for key in keys if key[0] == member.id)


def _part_above(above: Correlation, member: Correlation, part: Part) -> Part:
    values = dict(zip(member.group_by, part, strict=True))
    return tuple(values[above.field_of(name, member.id)] for name in above.group_by)


def _as_event(above: Correlation, member: Correlation, alert: Alert) -> Event:
    """An alert as an event of the correlation that builds on it; its time is that of the last event."""
    sample = alert.samples[0] if alert.samples else None
    return Event(alert.last_micros, 0, above.rules.index(member.id), member.id, None, sample)
