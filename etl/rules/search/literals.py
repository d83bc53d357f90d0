"""Literals: texts to search for, as bytes, and the forms that letters beyond ASCII give a text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from typing import NamedTuple

from etl.rules.predicates.predicate import TextKind

ANYWHERE, AT_START, AT_END, WHOLE = range(4)
"""Where in a text a literal is searched for."""

MAX_FORMS = 64
"""Forms of a text that the cases of its letters beyond ASCII make; a text with more is searched for by a regular expression."""

FOLD = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
"""A table for `bytes.translate` that makes the letters A to Z small."""

_KINDS: dict[TextKind, int] = {"contains": ANYWHERE, "startswith": AT_START, "endswith": AT_END, "equals": WHOLE}


class Literal(NamedTuple):
    """Bytes to search for; letters A to Z are small if case does not count."""

    owner: int
    """The number of the predicate, or of the pattern of a table, that it decides."""
    data: bytes
    kind: int
    cased: bool


def literals_of(owner: int, text: str, kind: TextKind, cased: bool) -> Iterator[Literal]:
    """A text as literals: one, or one for each form of its letters beyond ASCII."""
    for form in _forms(text, cased):
        data = form.encode("utf-8", "surrogatepass")
        yield Literal(owner, data if cased else data.translate(FOLD), _KINDS[kind], cased)


def is_literal(text: str, cased: bool) -> bool:
    """Whether a text has few enough forms to be searched for as literals."""
    return cased or text.isascii() or len(list(islice(_forms(text, cased), MAX_FORMS + 1))) <= MAX_FORMS


def forms_of(char: str) -> list[str]:
    """A character and those that equal it if case does not count: letters of ASCII equal letters of ASCII only."""
    cases = dict.fromkeys((char, char.lower(), char.upper()))
    return [one for one in cases if len(one) == 1 and one.isascii() == char.isascii()]


def _forms(text: str, cased: bool) -> Iterator[str]:
    if cased or text.isascii():
        return iter([text])
    return ("".join(form) for form in product(*([char] if char.isascii() else forms_of(char) for char in text)))
