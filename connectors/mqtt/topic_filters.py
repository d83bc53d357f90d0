"""Which topics a filter includes (MQTT 5.0, section 4.7)."""

from __future__ import annotations


def includes(filter_: str, topic: str) -> bool:
    """Return whether a filter, which may be that of a shared subscription, includes a topic."""
    if filter_.startswith("$share/"):
        filter_ = filter_.split("/", 2)[2]
    if topic.startswith("$") and filter_[:1] in ("+", "#"):
        return False
    levels, wanted = topic.split("/"), filter_.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(levels) == len(wanted)
