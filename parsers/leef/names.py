"""The names of LEEF: the predefined attributes, and the fields of ECS they mean.

Source: "QRadar Log Event Extended Format (LEEF)", IBM, predefined event attributes. Attributes that ECS has no field for keep
their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

Naming = Literal["ecs", "written"]

ECS_HEADERS = (
    "log.syslog.header",
    "leef.version",
    "observer.vendor",
    "observer.product",
    "observer.version",
    "event.code",
)
"""The text before ``LEEF:``, and the five fields after it."""

WRITTEN_HEADERS = ("syslog", "leefVersion", "vendor", "product", "version", "eventID")

_ECS = {
    "accountName": "user.name",
    "devTime": "@timestamp",
    "domain": "user.domain",
    "dst": "destination.ip",
    "dstBytes": "destination.bytes",
    "dstMAC": "destination.mac",
    "dstPackets": "destination.packets",
    "dstPort": "destination.port",
    "dstPostNAT": "destination.nat.ip",
    "dstPostNATPort": "destination.nat.port",
    "groupID": "user.group.id",
    "identHostName": "host.name",
    "identMAC": "host.mac",
    "identSrc": "host.ip",
    "proto": "network.transport",
    "role": "user.roles",
    "sev": "event.severity",
    "src": "source.ip",
    "srcBytes": "source.bytes",
    "srcMAC": "source.mac",
    "srcPackets": "source.packets",
    "srcPort": "source.port",
    "srcPostNAT": "source.nat.ip",
    "srcPostNATPort": "source.nat.port",
    "totalPackets": "network.packets",
    "url": "url.original",
    "usrName": "user.name",
}

_NAMINGS: Mapping[Naming, Mapping[str, str]] = {"ecs": _ECS, "written": {}}


def key_names(naming: Naming) -> Callable[[str], str]:
    """Keys → names; unknown keys keep theirs."""
    names = _NAMINGS[naming]
    return lambda key: names.get(key, key)


def headers(naming: Naming) -> tuple[str, ...]:
    """The names of the header's fields."""
    return ECS_HEADERS if naming == "ecs" else WRITTEN_HEADERS
