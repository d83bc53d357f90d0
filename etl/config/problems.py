"""Problems of a pipeline file: location, code, message and hint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from etl.api import EtlError

Severity = Literal["error", "warning"]

_PREDICATES = ("has no ", "needs ")
"""Beginnings of messages that continue the path before them."""
_NUMBER = re.compile(r"([0-9]{1,18})")
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to correct; ``path`` is a JSON path such as ``$.sources.auth.path``."""

    file: str
    line: int
    column: int
    code: str
    path: str
    message: str
    hint: str | None = None
    severity: Severity = "error"

    def __str__(self) -> str:
        severity = "warning: " if self.severity == "warning" else ""
        colon = "" if self.message.startswith(_PREDICATES) else ":"
        text = f"{self.file}:{self.line}:{self.column}: {severity}{self.code}: {self.path}{colon} {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


class ConfigError(EtlError):
    """The file is not a pipeline; ``problems`` lists the reasons in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


def json_path(path: Iterable[str | int]) -> str:
    """Keys and indexes → ``$.sinks.out.urls[0]``; a key that is not a plain word is quoted."""
    return "$" + "".join(_segment(part) for part in path)


def in_file_order(problems: Iterable[Problem]) -> list[Problem]:
    """Sorted by location, without repetitions; at one location by messages, of which many begin with a file and a line."""
    return sorted(set(problems), key=lambda p: (p.file, p.line, p.column, p.code, _with_numbers(p.message)))


def _with_numbers(text: str) -> list[str | int]:
    """Texts and numbers by turns: as a key for sorting it puts `:9` before `:10`."""
    return [int(part) if index % 2 else part for index, part in enumerate(_NUMBER.split(text))]


def _segment(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{part!r}]"
