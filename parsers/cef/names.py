"""The names of CEF: the keys of extensions, their full names, and the fields of ECS they mean.

Sources: "Implementing ArcSight Common Event Format", version 25 (dictionaries); for ECS the mapping that Elastic documents for
its CEF codec, with the sending device as ``observer``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

Naming = Literal["ecs", "full", "written"]

FULL_HEADERS = (
    "syslog",
    "cefVersion",
    "deviceVendor",
    "deviceProduct",
    "deviceVersion",
    "deviceEventClassId",
    "name",
    "severity",
)
"""The text before ``CEF:``, and the seven fields after it."""

ECS_HEADERS = (
    "log.syslog.header",
    "cef.version",
    "observer.vendor",
    "observer.product",
    "observer.version",
    "event.code",
    "cef.name",
    "event.severity",
)

_DICTIONARY = """
agentAddress agt agent.ip
agentDnsDomain - cef.agent.registered_domain
agentHostName ahost agent.name
agentId aid agent.id
agentMacAddress amac agent.mac
agentNtDomain - cef.agent.registered_domain
agentReceiptTime art event.created
agentTimeZone atz cef.agent.timezone
agentTranslatedAddress - cef.agent.nat.ip
agentTranslatedZoneExternalID - cef.agent.translated_zone.external_id
agentTranslatedZoneURI - cef.agent.translated_zone.uri
agentType at agent.type
agentVersion av agent.version
agentZoneExternalID - cef.agent.zone.external_id
agentZoneURI - cef.agent.zone.uri
applicationProtocol app network.protocol
baseEventCount cnt cef.base_event_count
bytesIn in source.bytes
bytesOut out destination.bytes
categoryDeviceType catdt cef.device_type
customerExternalID - organization.id
customerURI - organization.name
destinationAddress dst destination.ip
destinationDnsDomain - destination.registered_domain
destinationGeoLatitude dlat destination.geo.location.lat
destinationGeoLongitude dlong destination.geo.location.lon
destinationLatitude - destination.geo.location.lat
destinationLongitude - destination.geo.location.lon
destinationHostName dhost destination.domain
destinationMacAddress dmac destination.mac
destinationNtDomain dntdom destination.registered_domain
destinationPort dpt destination.port
destinationProcessId dpid destination.process.pid
destinationProcessName dproc destination.process.name
destinationServiceName - destination.service.name
destinationTranslatedAddress - destination.nat.ip
destinationTranslatedPort - destination.nat.port
destinationTranslatedZoneExternalID - cef.destination.translated_zone.external_id
destinationTranslatedZoneURI - cef.destination.translated_zone.uri
destinationUserId duid destination.user.id
destinationUserName duser destination.user.name
destinationUserPrivileges dpriv destination.user.group.name
destinationZoneExternalID - cef.destination.zone.external_id
destinationZoneURI - cef.destination.zone.uri
deviceAction act event.action
deviceAddress dvc observer.ip
deviceDirection - network.direction
deviceDnsDomain - observer.registered_domain
deviceEventCategory cat cef.category
deviceExternalId - observer.name
deviceFacility - log.syslog.facility.code
deviceHostName dvchost observer.hostname
deviceInboundInterface - observer.ingress.interface.name
deviceMacAddress dvcmac observer.mac
deviceNtDomain - cef.nt_domain
deviceOutboundInterface - observer.egress.interface.name
devicePayloadId - cef.payload_id
deviceProcessId dvcpid process.pid
deviceProcessName - process.name
deviceReceiptTime rt @timestamp
deviceTimeZone dtz event.timezone
deviceTranslatedAddress - host.nat.ip
deviceTranslatedZoneExternalID - cef.translated_zone.external_id
deviceTranslatedZoneURI - cef.translated_zone.uri
deviceZoneExternalID - cef.zone.external_id
deviceZoneURI - cef.zone.uri
endTime end event.end
eventId - event.id
eventOutcome outcome event.outcome
externalId - cef.external_id
fileCreateTime - file.created
fileHash - file.hash
fileId - file.inode
fileModificationTime - file.mtime
fileName fname file.name
filePath - file.path
filePermission - file.group
fileSize fsize file.size
fileType - file.extension
managerReceiptTime mrt event.ingested
message msg message
oldFileCreateTime - cef.old_file.created
oldFileHash - cef.old_file.hash
oldFileId - cef.old_file.inode
oldFileModificationTime - cef.old_file.mtime
oldFileName - cef.old_file.name
oldFilePath - cef.old_file.path
oldFilePermission - cef.old_file.group
oldFileSize - cef.old_file.size
oldFileType - cef.old_file.extension
rawEvent - event.original
Reason reason event.reason
requestClientApplication - user_agent.original
requestContext - http.request.referrer
requestCookies - cef.request.cookies
requestMethod - http.request.method
requestUrl request url.original
sourceAddress src source.ip
sourceDnsDomain - source.registered_domain
sourceGeoLatitude slat source.geo.location.lat
sourceGeoLongitude slong source.geo.location.lon
sourceLatitude - source.geo.location.lat
sourceLongitude - source.geo.location.lon
sourceHostName shost source.domain
sourceMacAddress smac source.mac
sourceNtDomain sntdom source.registered_domain
sourcePort spt source.port
sourceProcessId spid source.process.pid
sourceProcessName sproc source.process.name
sourceServiceName - source.service.name
sourceTranslatedAddress - source.nat.ip
sourceTranslatedPort - source.nat.port
sourceTranslatedZoneExternalID - cef.source.translated_zone.external_id
sourceTranslatedZoneURI - cef.source.translated_zone.uri
sourceUserId suid source.user.id
sourceUserName suser source.user.name
sourceUserPrivileges spriv source.user.group.name
sourceZoneExternalID - cef.source.zone.external_id
sourceZoneURI - cef.source.zone.uri
startTime start event.start
transportProtocol proto network.transport
type - cef.type
"""
"""A line each: full name, key (- for none of its own), field of ECS."""

_CUSTOM = (
    ("deviceCustomFloatingPoint", "cfp", "device_custom_floating_point", 15),
    ("deviceCustomIPv6Address", "c6a", "device_custom_ipv6_address", 15),
    ("deviceCustomNumber", "cn", "device_custom_number", 15),
    ("deviceCustomString", "cs", "device_custom_string", 15),
    ("deviceCustomDate", "deviceCustomDate", "device_custom_date", 2),
    ("flexDate", "flexDate", "flex_date", 1),
    ("flexNumber", "flexNumber", "flex_number", 2),
    ("flexString", "flexString", "flex_string", 2),
)
"""Fields whose meaning is in a label of the event: full name, key, name in ECS, how many there are."""


def _entries() -> Iterator[tuple[str, str, str]]:
    """Full name, key and field of ECS of every key."""
    for line in _DICTIONARY.split("\n"):
        if line:
            full, key, ecs = line.split(" ")
            yield full, full if key == "-" else key, ecs
    for full, key, ecs, many in _CUSTOM:
        for number in range(1, many + 1):
            yield f"{full}{number}", f"{key}{number}", f"cef.{ecs}_{number}.value"
            yield f"{full}{number}Label", f"{key}{number}Label", f"cef.{ecs}_{number}.label"


LABELLED = {
    spelling: (number, spelling.endswith("Label"))
    for number, (full, key) in enumerate(
        (f"{full}{n}", f"{key}{n}") for full, key, _, many in _CUSTOM for n in range(1, many + 1)
    )
    for spelling in (full, key, f"{full}Label", f"{key}Label")
}
"""Keys of custom fields → the number of the field, and whether it is the label."""

_FULL = {key: full for full, key, _ in _entries()}
_ECS = {spelling: ecs for full, key, ecs in _entries() for spelling in (key, full)}

_NAMINGS: dict[Naming, dict[str, str]] = {"ecs": _ECS, "full": _FULL, "written": {}}


def key_names(naming: Naming) -> Callable[[str], str]:
    """Keys → names; unknown keys keep theirs."""
    names = _NAMINGS[naming]
    return lambda key: names.get(key, key)


def headers(naming: Naming) -> tuple[str, ...]:
    """The names of the header's fields."""
    return ECS_HEADERS if naming == "ecs" else FULL_HEADERS
