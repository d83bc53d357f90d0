"""Findings about options, as values, and the exceptions of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from etl.events import Schema, prefixes, visible

NOTICE = 25
"""Level of log records that are shown without ``--verbose`` but are not warnings: between INFO and WARNING."""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A line and column, counted from one, of a file that an option names, and the path of the value there."""

    file: str
    line: int
    column: int = 1
    path: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or warning about a component's options.

    ``path`` leads from the component to the option, for example ``("patterns", 0)``; ``at`` is the character
    inside that option's text the finding is about, where there is one.
    """

    code: str
    message: str
    path: tuple[str | int, ...] = ()
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"
    at: int | None = None
    location: FileLocation | None = None
    """The location, if it is in another file than the pipeline's."""


class EtlError(Exception):
    """The base class of all errors that the engine raises."""


class PlanError(EtlError):
    """A step or sink cannot be built from valid options; the message names it."""


class ComponentError(EtlError):
    """A component failed at run time for a reason its user can act on; the message says what to do."""


class RetryAfterError(OSError):
    """Temporary like any OSError, and the server asks for a pause of ``seconds`` before the next attempt."""

    def __init__(self, cause: str, seconds: float) -> None:
        super().__init__(cause)
        self.seconds = seconds


class SplitLostError(OSError):
    """Raised by a writer that has lost all events of its split, for example when the connection of a transaction breaks.

    Temporary like any OSError, but the engine runs the split again from its start. An OSError from `Writer.close` means the same.
    """


def nearest(name: str, names: Iterable[str]) -> str | None:
    """``did you mean 'x'?`` for the most similar of ``names``, or None."""
    found = closest(name, names)
    return f"did you mean {found!r}?" if found else None


def closest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of ``names``, if one is similar enough to be meant."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(names), n=1, cutoff=0.6)
    return found[0] if found else None


def unknown_field(name: str, incoming: Schema, path: tuple[str | int, ...], at: int | None = None, hint: str = "") -> Finding:
    """The finding for an option at ``path`` that names a field, or a prefix with ``.*``, which ``incoming`` does not have.

    ``at`` is the character of the name inside the option's text; ``hint`` goes before the nearest name.
    """
    names = visible(incoming).names
    near = hint or nearest(name.removesuffix(".*"), {*names, *prefixes(names)})
    shown = near or f"fields here: {', '.join(names[:MAX_NAMES_SHOWN])}"
    return Finding("unknown-field", f"there is no field {name!r} here", path, shown, at=at)


MAX_NAMES_SHOWN = 20
"""Fields that a hint lists."""


def cut(text: str, max_length: int) -> str:
    """Return the text, or its first characters with an ellipsis, for messages."""
    return text if len(text) <= max_length else f"{text[:max_length]}…"
