"""What is wrong with a text in one of RocketMQ Streams' languages."""

from __future__ import annotations


class SourceError(ValueError):
    """A text that cannot be converted; ``at`` is the character that the error is about."""

    def __init__(self, code: str, message: str, at: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.at = at
        self.hint = hint

    def shown(self, file: str, text: str) -> str:
        """``file:line:column: code: message``, and the hint on a line of its own."""
        before = text[: self.at]
        line, column = before.count("\n") + 1, self.at - (before.rfind("\n") + 1) + 1
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{file}:{line}:{column}: {self.code}: {self}{hint}"
