"""A token of an expression in its context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

_OPERANDS = frozenset(("VAR", "STRING", "NUMBER", "R_PAREN", "R_BRACKET", "IDENTIFIER", "NULL", "TRUE", "FALSE"))
_KEYWORDS = frozenset(
    "and or not in like ilike rlike regexp case when then else end is between div select where from as interval distinct".split()  # noqa: SIM905
)
"""Words that are not names of fields."""


class TokenContext(NamedTuple):
    """A token in its context."""

    text: str
    tokens: Sequence[Any]
    number: int

    @property
    def token(self) -> Any:
        return self.tokens[self.number]

    def kind(self, step: int = 0) -> str:
        """The kind of the token ``step`` tokens further; empty beyond the ends."""
        at = self.number + step
        return self.tokens[at].token_type.name if 0 <= at < len(self.tokens) else ""

    def word(self, step: int = 0) -> str:
        at = self.number + step
        return str(self.tokens[at].text) if 0 <= at < len(self.tokens) else ""

    def is_name(self, step: int) -> bool:
        """Whether a token can be the name of a field; many of Spark's keywords can, such as ``file``."""
        word = self.word(step)
        return word.isidentifier() and word.lower() not in _KEYWORDS and self.kind(step) != "STRING"

    def is_operand(self, step: int) -> bool:
        """Whether a token is a value or the end of one."""
        return self.kind(step) in _OPERANDS or self.is_name(step)

    def touches(self) -> bool:
        """Whether the next token follows without white space."""
        return self.number + 1 < len(self.tokens) and self.tokens[self.number + 1].start == self.token.end + 1

    def value(self, step: int) -> str:
        """The value before (-1) or after (1) the token, as written: a path of names or a constant, else three dots."""
        first = last = self.number + step
        if self.kind(step) in ("R_PAREN", "R_BRACKET") or not self.is_operand(step):
            return "…"
        while self._is_dot(first - 1 if step < 0 else last + 1):
            first, last = (first - 2, last) if step < 0 else (first, last + 2)
        return self.text[self.tokens[first].start : self.tokens[last].end + 1]

    def function(self) -> str:
        """The name before the bracket around the token, in lower case."""
        depth = 0
        for at in range(self.number - 1, 0, -1):
            depth += {"L_PAREN": -1, "R_PAREN": 1}.get(self.tokens[at].token_type.name, 0)
            if depth < 0:
                return str(self.tokens[at - 1].text).lower()
        return ""

    def _is_dot(self, at: int) -> bool:
        return 0 < at < len(self.tokens) - 1 and self.tokens[at].token_type.name == "DOT"
