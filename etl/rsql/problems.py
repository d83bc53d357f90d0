"""What is wrong with a text in one of RocketMQ Streams' languages."""

from __future__ import annotations

from collections.abc import Iterable

MAX_ERRORS = 100
"""Errors of a text that are reported."""


class SourceError(ValueError):
    """A text that cannot be converted; ``at`` is the character that the error is about."""

    def __init__(self, code: str, message: str, at: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.at = at
        self.hint = hint
        self.is_warning = False
        """Whether the text is converted nevertheless."""
        self.further: tuple[SourceError, ...] = ()
        """What else is wrong with the same text, in its order."""

    @property
    def all(self) -> tuple[SourceError, ...]:
        """This error and the further ones."""
        return (self, *self.further)

    def shown(self, file: str, text: str) -> str:
        """``file:line:column: [warning: ]code: message``, and the hint on a line of its own."""
        before = text[: self.at]
        line, column = before.count("\n") + 1, self.at - (before.rfind("\n") + 1) + 1
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        severity = "warning: " if self.is_warning else ""
        return f"{file}:{line}:{column}: {severity}{self.code}: {self}{hint}"


def first_of(errors: Iterable[SourceError]) -> SourceError:
    """The first error of a text, with the others as further ones; equal errors at one position are one error."""
    found = {(one.at, str(one)): one for error in errors for one in error.all}
    first, *further = sorted(found.values(), key=lambda one: one.at)[:MAX_ERRORS]
    first.further = tuple(further)
    return first
