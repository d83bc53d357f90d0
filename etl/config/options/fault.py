"""What the schema of pipelines has against a value, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.api import cut
from etl.config.model import OptionPath
from etl.config.nested_values import value_at
from etl.config.report import Report

Json = Mapping[str, Any]

_LONGEST_SHOWN = 80
"""Characters of a value that a message shows."""


@dataclass(frozen=True)
class SchemaViolation:
    """One finding of the schema. For a ``soft`` one the option's own type may have a better message."""

    path: OptionPath
    code: str
    message: str
    hint: str | None = None
    key: bool = False
    soft: bool = False
    option: str = ""
    """The option that is missing."""
    schema: Json | None = field(default=None, compare=False)
    """Schema of the mapping that lacks it."""
    meant: str | None = None
    """The option that an unknown one most likely means."""
    silent: bool = False
    """Whether it is a consequence of another fault, which is reported."""
    replaces_missing: bool = False
    """Whether the hint names what to write instead of the option, and instead of a missing one beside it."""
    lifts: bool = False
    """Whether an unknown option holds nothing but options, which belong beside it."""


@dataclass(frozen=True)
class FaultContext:
    """What a message needs beside the validator's error, whose kinds have attributes that no type declares."""

    root: Any
    schema: Json
    report: Report

    def parent(self, error: Any) -> Json:
        """The schema that the error's value violates."""
        found = value_at(self.schema, tuple(error.schema_path)[:-1])
        return found if isinstance(found, dict) else {}

    def value(self, error: Any) -> Any:
        """The value with the error."""
        return value_at(self.root, tuple(error.instance_path))

    def shown(self, error: Any) -> str:
        """The value as the file writes it, unless it is a secret."""
        path = tuple(error.instance_path)
        if is_secret(self.parent(error)):
            return "the value"
        value = self.report.substituted.get(path, value_at(self.root, path))
        text = str(value).lower() if isinstance(value, bool) else repr(value)
        return cut(text, _LONGEST_SHOWN)


def is_secret(schema: Json) -> bool:
    """Whether the values of an option are not to be shown."""
    return bool(schema.get("writeOnly")) or any(is_secret(part) for part in schema.get("anyOf", ()))
