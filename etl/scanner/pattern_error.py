"""The error of an invalid pattern."""

from __future__ import annotations


class PatternError(Exception):
    """An invalid pattern: what is wrong, and at which character."""

    def __init__(self, message: str, at: int, code: str = "bad-pattern", hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.at, self.code, self.hint = message, at, code, hint
