"""The state of a family of correlations in one group, and how it advances with the watermark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from etl.rules.correlation.families import Family
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.windows import Alert, Event, WindowState, advance, next_deadline

GroupKey = tuple[str, ...]
"""The values of a member's group fields. A member that other correlations build on may group by more fields than the head."""


@dataclass
class Group:
    """The window states of a family in one group of its head: one for each member and key."""

    states: dict[tuple[str, GroupKey], WindowState] = field(default_factory=dict)

    def advance(self, family: Family, watermark: int) -> list[Alert]:
        """Process the events in the states up to the watermark. Returns the alerts of the family's head."""
        new_events: dict[tuple[str, GroupKey], list[Event]] = {}
        alerts: list[Alert] = []
        for member in family.members:
            keys = dict.fromkeys((*(key for key in self.states if key[0] == member.id), *_keys_of(member, new_events)))
            for key in keys:
                state = self.states.setdefault(key, WindowState())
                found = advance(member, state, new_events.get(key, ()), watermark)
                for above in family.above(member):
                    events = new_events.setdefault((above.id, _key_above(above, member, key[1])), [])
                    events += (_as_event(above, member, alert) for alert in found)
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


def _keys_of(member: Correlation, keys: Iterable[tuple[str, GroupKey]]) -> Iterator[tuple[str, GroupKey]]:
    return (key for key in keys if key[0] == member.id)


def _key_above(above: Correlation, member: Correlation, key: GroupKey) -> GroupKey:
    """Return the key of ``above``, which builds on ``member``, for a key of ``member``."""
    values = dict(zip(member.group_by, key, strict=True))
    return tuple(values[above.field_of(name, member.id)] for name in above.group_by)


def _as_event(above: Correlation, member: Correlation, alert: Alert) -> Event:
    """Return an alert as an event of ``above``, which builds on it; its time is that of the last event."""
    sample = alert.samples[0] if alert.samples else None
    return Event(alert.last_micros, 0, above.rules.index(member.id), member.id, None, sample)
