"""The fields of a script: names as Spark SQL writes them, and what becomes of them step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from etl.expressions.quoting import quoted


class ScriptScope:
    """The fields that the statements so far have left. Without a schema every name is that of a field."""

    def __init__(self, fields: Mapping[str, pa.DataType] | None = None, declared: Mapping[str, str] | None = None) -> None:
        self.declared = dict(declared or {})
        """Fields that functions may give whose names only the run shows, each with its type in Spark SQL."""
        self.properties: dict[str, str] = {}
        """Properties that the script sets, for ``env``."""
        self._fields: dict[str, pa.DataType | None] | None = None if fields is None else dict(fields)
        self.warnings: dict[str, int] = {}
        """What is read otherwise than it may be meant, each with the first character of it."""
        self.reads: set[str] = set()
        """Fields that the current expression reads."""

    @property
    def is_known(self) -> bool:
        """Whether the fields are known."""
        return self._fields is not None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._fields or ())

    def has(self, name: str) -> bool:
        return self._fields is None or name in self._fields

    def type_of(self, name: str) -> pa.DataType | None:
        return (self._fields or {}).get(name)

    def members(self, name: str) -> tuple[str, ...]:
        """The fields below a name, ``jo.k`` of ``jo``."""
        return tuple(field for field in self._fields or () if field.startswith(f"{name}."))

    def text(self, name: str, at: int) -> str:
        """A field in Spark SQL; null for one that does not exist."""
        if not self.has(name):
            self.warn_missing(name, at)
            return "null"
        self.reads.add(name)
        return quoted(name)

    def undefined(self) -> dict[str, str]:
        """The declared fields that no statement has given yet, with their types."""
        return {name: type_ for name, type_ in self.declared.items() if self._fields is None or name not in self._fields}

    def warn_missing(self, name: str, at: int) -> None:
        self.warnings.setdefault(f"there is no field {name!r} here: the script takes it for null", at)

    def add(self, names: Iterable[str]) -> None:
        if self._fields is not None:
            self._fields |= dict.fromkeys(names)

    def drop(self, names: Iterable[str]) -> None:
        for name in names:
            if self._fields is not None:
                self._fields.pop(name, None)

    def rename(self, names: Mapping[str, str]) -> None:
        if self._fields is not None:
            self._fields = {names.get(name, name): type_ for name, type_ in self._fields.items()}

    def replace(self, name: str, fields: Mapping[str, pa.DataType]) -> None:
        """Other fields in place of one."""
        self.drop([name])
        if self._fields is not None:
            self._fields |= dict(fields)
