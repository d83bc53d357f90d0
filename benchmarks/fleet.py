"""Events of process creation that never repeat, as a fleet of machines sends them, with the hits of the events they are made of.

Each event is a recorded one with texts of its own: process and logon GUIDs, hashes, times, process numbers, host, user,
folders with the user's name or a version, and command lines with a further argument. An edit that would change which rules
an event meets is not applied to it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import compress
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[Event, random.Random], None]
"""Changes an event in place."""
Hits: TypeAlias = Sequence[Sequence[int]]
"""Of each event the rules that it meets."""

COMMANDS = ("CommandLine", "ParentCommandLine")
PATHS = ("Image", "ParentImage", "CurrentDirectory", *COMMANDS)
ACCOUNTS = ("User", "ParentUser")
_GUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DIGEST = re.compile(r"(?<==)[0-9A-F]{32,64}\b")
_NUMBER = re.compile(r"\b(?:0x[0-9a-f]{3,}|\d{3,})\b")
_VERSION = re.compile(r"(?<=[\\_])\d+(?:\.\d+)+")
_PROFILE = re.compile(r"(?i)(\\users\\)(?!public|default|all users)([^\\\"]+)")
_PROGRAM = re.compile(r"\s*(?:\"[^\"]*\"|\S+)")
_SYSTEM = ("NT AUTHORITY", "Window Manager", "Font Driver Host")
_SYLLABLES = ("an", "bel", "cor", "da", "el", "fi", "gar", "hu", "is", "jo", "kal", "lu", "mor", "ne", "ol", "per", "ra", "sim")


def events(recorded: Sequence[Event], times: int, meets: Callable[[Sequence[Event]], Hits]) -> Iterator[Event]:
    """``times`` variants of each recorded event; ``meets`` finds the hits of events."""
    harmless_edits = list(_harmless_edits(recorded, meets))
    for turn in range(times):
        for number, (event, edits) in enumerate(zip(recorded, harmless_edits, strict=True)):
            yield _edited(event, edits, random.Random(turn * len(recorded) + number))


def lines(recorded: Sequence[Event], times: int, meets: Callable[[Sequence[Event]], Hits]) -> Iterator[bytes]:
    """The same as lines of JSON."""
    for event in events(recorded, times, meets):
        yield json.dumps(event, ensure_ascii=False, separators=(", ", ": ")).encode() + b"\n"


def _harmless_edits(recorded: Sequence[Event], meets: Callable[[Sequence[Event]], Hits]) -> Iterator[list[Edit]]:
    """Of each event the edits that change none of its hits: of alternatives the first."""
    expected = [set(rules) for rules in meets(recorded)]
    harmless_edits: list[list[Edit]] = [[] for _ in recorded]
    for alternatives in EDITS:
        todo = list(range(len(recorded)))
        for edit in alternatives:
            tried = [_edited(recorded[n], [*harmless_edits[n], edit], random.Random(n)) for n in todo]
            same = [set(rules) == expected[n] for n, rules in zip(todo, meets(tried), strict=True)]
            for n in compress(todo, same):
                harmless_edits[n].append(edit)
            todo = [n for n, unchanged in zip(todo, same, strict=True) if not unchanged]
    yield from harmless_edits


def _edited(event: Event, edits: Sequence[Edit], chance: random.Random) -> Event:
    found = dict(event)
    for edit in edits:
        edit(found, chance)
    _write_message(found, event)
    return {name: found[name] for name in event}


def _write_message(found: Event, before: Event) -> None:
    """The rendered text of the event tells the values that it has now."""
    text = before.get("Message")
    if isinstance(text, str):
        new_lines = {
            f"{name}: {before[name]}": f"{name}: {value}"
            for name, value in found.items()
            if isinstance(value, str) and name in before
        }
        found["Message"] = "\r\n".join(new_lines.get(line, line) for line in text.split("\r\n"))


def _identities(event: Event, chance: random.Random) -> None:
    """GUIDs, times, process numbers, the host."""
    known: dict[str, str] = {}
    for name, value in event.items():
        if isinstance(value, str) and name.endswith("Guid"):
            event[name] = _GUID.sub(lambda one: known.setdefault(one[0], _guid(chance)), value)
    for name in ("ProcessId", "ParentProcessId"):
        event[name] = str(chance.randrange(400, 40_000))
    event |= {"LogonId": hex(chance.getrandbits(31)), "RecordNumber": chance.getrandbits(31), "ThreadID": chance.randrange(9_000)}
    event["Hostname"] = f"{_name(chance)}-{chance.randrange(9_999):04}.corp.example"
    event["host"] = event["Hostname"]
    _later(event, timedelta(milliseconds=chance.getrandbits(33)))


def _later(event: Event, by: timedelta) -> None:
    for name in ("@timestamp", "EventReceivedTime", "EventTime", "UtcTime"):
        if isinstance(value := event.get(name), str):
            time = (datetime.fromisoformat(value.rstrip("Z")) + by).isoformat(value[10:11], "milliseconds")
            event[name] = time + value[23:] if "." in value else time[:19]


def _digests(event: Event, chance: random.Random) -> None:
    event["Hashes"] = _DIGEST.sub(lambda one: f"{chance.getrandbits(4 * len(one[0])):0{len(one[0])}X}", event.get("Hashes") or "")


def _people(event: Event, chance: random.Random) -> None:
    """Accounts of people, and the folders of their profiles."""
    name = f"{_name(chance)}.{_name(chance)}"
    for field in ACCOUNTS:
        domain, _, account = (event.get(field) or "").partition("\\")
        if account and domain not in _SYSTEM:
            event[field] = f"{domain}\\{name}"
    _in_paths(event, lambda text: _PROFILE.sub(lambda one: one[1] + name, text))


def _versions(event: Event, chance: random.Random) -> None:
    """Folders that are named after a version."""
    _in_paths(event, lambda text: _VERSION.sub(lambda one: re.sub(r"\d+", lambda _: str(chance.randrange(200)), one[0]), text))


def _in_paths(event: Event, edit: Callable[[str], str]) -> None:
    event |= {name: edit(event[name]) for name in PATHS if isinstance(event.get(name), str)}


def _numbers(name: str) -> Edit:
    """GUIDs and numbers in a command line."""

    def edit(event: Event, chance: random.Random) -> None:
        text = _GUID.sub(lambda _: _guid(chance), event.get(name) or "")
        event[name] = _NUMBER.sub(lambda one: f"{chance.randrange(10 ** len(one[0])):0{len(one[0])}}", text)

    return edit


def _argument(name: str, after_program: bool) -> Edit:
    """A further argument, after the program or at the end."""

    def edit(event: Event, chance: random.Random) -> None:
        text = event.get(name) or ""
        program = _PROGRAM.match(text)
        at = program.end() if program and after_program else len(text)
        event[name] = f"{text[:at]} {chance.choice(ARGUMENTS)(chance)}{text[at:]}"

    return edit


def _folder(event: Event, chance: random.Random) -> None:
    event["CurrentDirectory"] = (
        f"{(event.get('CurrentDirectory') or 'C:').rstrip(chr(92))}\\{_name(chance)}{chance.randrange(9_999)}\\"
    )


def _guid(chance: random.Random) -> str:
    text = f"{chance.getrandbits(128):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _name(chance: random.Random) -> str:
    return "".join(chance.choices(_SYLLABLES, k=3))


ARGUMENTS: Sequence[Callable[[random.Random], str]] = (
    lambda chance: f"--session={_guid(chance)}",
    lambda chance: f"-p {chance.randrange(400, 40_000)} -t {chance.getrandbits(40)}",
    lambda chance: f"/d:C:\\Data\\{_name(chance)}\\{_name(chance)}{chance.getrandbits(24)}.dat",
    lambda chance: (
        f"--field-trial-handle={chance.getrandbits(20)},{chance.getrandbits(62)},{chance.getrandbits(62)} --lang=en-GB"
    ),
    lambda chance: f'"D:\\Shares\\{_name(chance)} {_name(chance)}\\Report {chance.getrandbits(30)}.xlsx"',
    lambda chance: f"-name {_name(chance)}.{_name(chance)} -id {chance.getrandbits(64):x}",
)
EDITS: Sequence[Sequence[Edit]] = (
    *((edit,) for edit in (_identities, _digests, _people, _versions, _folder)),
    *((_numbers(name),) for name in COMMANDS),
    *((_argument(name, True), _argument(name, False)) for name in COMMANDS),
)
"""Of alternatives the first that changes no hits is applied."""
