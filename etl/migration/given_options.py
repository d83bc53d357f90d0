"""Options of an input or output while it is imported: those that nothing reads stand in the report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from etl.migration.draft import Draft, NoCounterpartError
from etl.migration.ingest.processor import as_list
from etl.migration.report import ImportReport, OmittedConstruct


class GivenOptions(Mapping[str, Any]):
    """The options of a component of another tool; it notes which were read. Members of a mapping are options, too."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {str(name): GivenOptions(value) if isinstance(value, Mapping) else value for name, value in values.items()}
        self._read: set[str] = set()
        self._reasons: dict[str, str] = {}

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        self._read.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def members(self, name: str) -> GivenOptions:
        """The options under a name; none where it is missing or no mapping."""
        value = self.get(name)
        return value if isinstance(value, GivenOptions) else GivenOptions({})

    def is_on(self, name: str) -> bool:
        """Whether a switch is on, in any spelling of the tools."""
        return str(self.get(name, "")).lower() in ("true", "on", "yes", "1")

    def is_off(self, name: str) -> bool:
        """Whether a switch is given and off."""
        return str(self.get(name, "")).lower() in ("false", "off", "no", "0")

    def number(self, name: str, default: int = 0) -> int:
        """A whole number. Raises NoCounterpartError for another value."""
        return whole_number(self.get(name, default), name)

    def texts(self, names: Mapping[str, str]) -> dict[str, str]:
        """Options that a component here has under other names: theirs to ours."""
        return {ours: str(self[theirs]) for theirs, ours in names.items() if self.get(theirs) not in (None, "")}

    def leave(self, name: str, reason: str) -> None:
        """Note an option that is not carried over."""
        self._read.add(name)
        self._reasons[name] = reason

    def left(self, without_effect: re.Pattern[str]) -> dict[str, str]:
        """The options that are not carried over, with the reason; those ``without_effect`` change nothing here."""
        found = dict(self._reasons)
        for name, value in self._values.items():
            if isinstance(value, GivenOptions) and name in self._read:
                found |= {f"{name}.{inner}": reason for inner, reason in value.left(without_effect).items()}
            elif name not in self._read and value != [] and not without_effect.fullmatch(name):
                found[name] = "an option without a counterpart"
        return found


_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


def whole_number(value: Any, name: str) -> int:
    """The value as a whole number. Raises NoCounterpartError if it is none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise NoCounterpartError(f"`{name}` is a whole number, and not {value!r}") from None


def existing_fields(options: dict[str, Any], draft: Draft, given: GivenOptions) -> dict[str, Any]:
    """The options of a sink without those that name a field which no step gives; these are left to the report."""
    for option in ("id", "key", "routing", "value_field"):
        missing = [name for name in as_list(options.get(option) or []) if draft.field(name).is_null]
        if missing:
            given.leave(option, f"no step gives the field {missing[0]}")
            del options[option]
    for label, text in dict(options.get("labels", {})).items():
        missing = [name for name in _PLACEHOLDER.findall(text) if draft.field(name).is_null]
        if missing:
            given.leave(f"labels.{label}", f"no step gives the field {missing[0]}")
            del options["labels"][label]
    if options.get("labels") == {}:
        options["labels"] = {"job": "imported"}  # Loki's streams need a label
    return options


def leave_options(report: ImportReport, location: str, label: str, left: Mapping[str, str]) -> list[str]:
    """Note options that are not carried over, with their reasons: the comments for their component."""
    report.total += len(left)
    report.left += [OmittedConstruct(location, f"{label}.{name}", reason) for name, reason in left.items()]
    return [f"NOT CARRIED OVER: {name}: {reason}" for name, reason in left.items()]


def kafka_security(protocol: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    """Options of source and sink ``kafka`` for a protocol (``SASL_SSL``) and a mechanism (``PLAIN``) of Kafka's clients."""
    made: dict[str, Any] = {"tls": {}} if protocol.upper().endswith("SSL") else {}
    if protocol.upper().startswith("SASL") or user:
        made |= {"user": user, "password": password, "mechanism": mechanism.upper() or "PLAIN"}
    return made
