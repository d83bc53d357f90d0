"""Which entries are read: conditions on their values, as those of ``journalctl``.

A condition is met by an entry if one of its values meets it. The filter computes conditions once for each distinct value of a
batch, as bits of a number, and combines the bits of an entry's values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    import numpy as np

Severity = Literal["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

_UNIT_SUFFIXES = (
    ".service",
    ".socket",
    ".target",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".timer",
    ".path",
    ".slice",
    ".scope",
)

MAX_CONDITIONS = 64
"""Conditions of a filter: bits of a number."""


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """One of the fields has one of the texts, or a text that one of them matches as a glob."""

    fields: tuple[str, ...]
    texts: tuple[str, ...]
    are_globs: bool = False

    def is_met(self, field: str, value: str) -> bool:
        """Return whether a value of a field meets the condition."""
        if field not in self.fields:
            return False
        return any(fnmatchcase(value, text) for text in self.texts) if self.are_globs else value in self.texts


def _is_glob(unit: str) -> bool:
    """Whether it stands for several units: such a name is one of units of any kind, as with ``journalctl --unit``."""
    return any(letter in unit for letter in "*?[")


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Requirements that an entry must all meet: each is met if all conditions of one of its alternatives are."""

    conditions: tuple[FieldCondition, ...]
    requirements: tuple[tuple[int, ...], ...]
    """Alternatives of each requirement: bits of the conditions that are met together."""
    since: int | None
    """Time of the first entry, microseconds since 1970."""

    @classmethod
    def of(
        cls,
        units: Sequence[str],
        identifiers: Sequence[str],
        priority: Severity | None,
        match: Mapping[str, Sequence[str]],
        since: int | None,
    ) -> EntryFilter:
        """Build the filter of the options."""
        conditions: list[FieldCondition] = []
        requirements: list[tuple[int, ...]] = []

        def add(condition: FieldCondition) -> int:
            if condition not in conditions:
                conditions.append(condition)
            return 1 << conditions.index(condition)

        if units:
            names = tuple(unit if unit.endswith(_UNIT_SUFFIXES) or _is_glob(unit) else f"{unit}.service" for unit in units)
            own = add(FieldCondition(("_SYSTEMD_UNIT",), names, are_globs=True))
            of_slice = add(FieldCondition(("_SYSTEMD_SLICE",), tuple(name for name in names if name.endswith(".slice")), True))
            by_manager = add(FieldCondition(("UNIT",), names, True)) | add(FieldCondition(("_PID",), ("1",)))
            by_root = add(FieldCondition(("COREDUMP_UNIT", "OBJECT_SYSTEMD_UNIT"), names, True)) | add(
                FieldCondition(("_UID",), ("0",))
            )
            requirements.append((own, of_slice, by_manager, by_root))
        if priority is not None:
            numbers = tuple(str(number) for number in range(SEVERITIES.index(priority) + 1))
            requirements.append((add(FieldCondition(("PRIORITY",), numbers)),))
        if identifiers:
            requirements.append((add(FieldCondition(("SYSLOG_IDENTIFIER",), tuple(identifiers))),))
        requirements.extend((add(FieldCondition((field,), tuple(texts))),) for field, texts in match.items())
        return cls(tuple(conditions), tuple(requirements), since)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that conditions are about."""
        return tuple(dict.fromkeys(field for condition in self.conditions for field in condition.fields))

    def bits(self, field: str, value: str) -> int:
        """Return the conditions that a value meets."""
        return sum(1 << number for number, condition in enumerate(self.conditions) if condition.is_met(field, value))

    def choose(self, bits: np.ndarray[Any, Any], times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return which entries pass (bool[n]), by the conditions that they meet (uint64[n]) and their times (int64[n])."""
        import numpy as np

        chosen = np.ones(len(bits), bool) if self.since is None else times >= self.since
        for alternatives in self.requirements:
            met = np.zeros(len(bits), bool)
            for needed in alternatives:
                met |= bits & np.uint64(needed) == np.uint64(needed)
            chosen &= met
        return chosen
