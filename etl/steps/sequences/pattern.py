"""The text of a pattern: ``failed{5,} then not logout then next accepted``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from etl.api import Finding, closest


@dataclass(frozen=True)
class PatternElement:
    """A named event, and how often it occurs."""

    name: str
    at: int
    """The character of the name."""
    least: int = 1
    """Minimum number of events."""
    most: int | None = 1
    """Maximum number of events, None for any number."""
    next: bool = False
    """Whether the element begins with the event directly after the element before: `then next`."""
    consecutive: bool = False
    """Whether no other event may be between its own events."""
    reluctant: bool = False
    """Whether it takes as few events as possible: a ``?`` after the quantifier."""
    absent: tuple[str, ...] = ()
    """Names of events that must not occur between the element before and this one."""


@dataclass(frozen=True)
class Pattern:
    """The elements in order."""

    elements: tuple[PatternElement, ...] = ()
    absent_after: tuple[str, ...] = ()
    """Names of events that must not occur after the last element."""
    findings: tuple[Finding, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of events that are taken, each once."""
        return tuple(dict.fromkeys(element.name for element in self.elements))

    @property
    def positions(self) -> Mapping[str, int]:
        """All names, and where each stands last."""
        absent = [*(element.absent for element in self.elements), self.absent_after]
        names = [
            name for at, one in enumerate(absent) for name in (*one, *(element.name for element in self.elements[at : at + 1]))
        ]
        return {name: at for at, name in enumerate(names)}


@dataclass
class _Token:
    text: str
    at: int


_TOKEN = re.compile(r"\s*(?P<token>[A-Za-z_]\w*|\{[^{}]*\}|.)", re.DOTALL)
_COUNTED = re.compile(r"\{\s*(?P<least>\d+)\s*(?P<open>,\s*(?P<most>\d*)\s*)?\}")
_QUANTIFIERS = {"?": (0, 1), "+": (1, None), "*": (0, None)}
WORDS = ("then", "next", "not", "or", "consecutive", "within")
"""Words that no event can have as its name."""

_EXAMPLE = "write for example failed{5,} then accepted"
_QUANTIFIER_HINT = "write {5}, {5,}, {2,5}, ?, + or *"


def read_pattern(text: str, names: Mapping[str, object] | None = None) -> Pattern:
    """The pattern of a text, with findings about it; ``names``: those of events, None if any will do."""
    return _Reader(text, names).read()


class _BadPatternError(Exception):
    def __init__(self, message: str, at: int, hint: str | None = _EXAMPLE, code: str = "bad-pattern") -> None:
        super().__init__(message)
        self.finding = Finding(code, message, ("pattern",), hint, at=at)


@dataclass
class _Reader:
    """Reads a text from left to right, and stops at the first mistake."""

    text: str
    names: Mapping[str, object] | None
    _tokens: list[_Token] = field(init=False)

    def __post_init__(self) -> None:
        found = _TOKEN.finditer(self.text.rstrip())
        self._tokens = [_Token(one["token"], one.start("token")) for one in found]

    def read(self) -> Pattern:
        try:
            elements, absent = self._elements()
        except _BadPatternError as error:
            return Pattern(findings=(error.finding,))
        return Pattern(elements, absent, tuple(_useless(elements, absent)))

    def _elements(self) -> tuple[tuple[PatternElement, ...], tuple[str, ...]]:
        elements: list[PatternElement] = []
        absent: tuple[str, ...] = ()
        follows = False
        while True:
            at = self._at
            if self._accepts("not"):
                absent += self._absent(bool(elements), follows, at)
            else:
                elements.append(self._element(follows, absent))
                absent = ()
            if not self._tokens:
                return tuple(elements), absent
            follows = self._read_separator()

    def _read_separator(self) -> bool:
        """Whether the next element follows directly."""
        at, word = self._at, self._word()
        if word == "within":
            raise _BadPatternError("the time is an option of its own", at, "leave it out here, and give within: 10m")
        if word in {"not", "next"}:
            raise _BadPatternError(f"'then' stands before {word!r}", at, f"write then {word}")
        if word != "then":
            raise _BadPatternError(f"'then' is missing before {word!r}", at)
        return self._accepts("next")

    def _absent(self, has_element: bool, follows: bool, at: int) -> tuple[str, ...]:
        if not has_element:
            raise _BadPatternError("a sequence begins with an event that occurs", at, "leave out the first 'not …'")
        if follows:
            raise _BadPatternError(
                "'not' after 'then next' says nothing: the next event is the one it names", at, "write then not"
            )
        names = [self._name()]
        while self._accepts("or"):
            names.append(self._name())
        if self._tokens and self._tokens[0].text[0] in "{?+*":
            raise _BadPatternError("what must not occur has no number", self._at, "leave it out: one such event is enough")
        return tuple(names)

    def _element(self, follows: bool, absent: tuple[str, ...]) -> PatternElement:
        at = self._at
        name = self._name()
        least, most = self._quantifier()
        reluctant = (least, most) != (1, 1) and self._accepts("?")
        return PatternElement(name, at, least, most, follows, self._accepts("consecutive"), reluctant, absent)

    def _quantifier(self) -> tuple[int, int | None]:
        if not self._tokens or self._tokens[0].text[0] not in "{?+*":
            return 1, 1
        at, word = self._at, self._word()
        if word in _QUANTIFIERS:
            return _QUANTIFIERS[word]
        found = _COUNTED.fullmatch(word)
        if not found:
            raise _BadPatternError(f"{word} is not a number of events", at, _QUANTIFIER_HINT)
        least = int(found["least"])
        most = (int(found["most"]) if found["most"] else None) if found["open"] else least
        if most is not None and most < max(least, 1):
            raise _BadPatternError(f"{word} allows no number of events", at, _QUANTIFIER_HINT)
        return least, most

    def _name(self) -> str:
        at = self._at
        name = self._word()
        if name in WORDS or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise _BadPatternError(f"the name of an event is missing before {name!r}", at)
        if self.names is not None and name not in self.names:
            near = closest(name, self.names)
            hint = f"did you mean {near!r}?" if near else f"events here: {', '.join(self.names)}"
            raise _BadPatternError(f"there is no event {name!r}", at, hint, "unknown-event")
        return name

    @property
    def _at(self) -> int:
        return self._tokens[0].at if self._tokens else len(self.text)

    def _word(self) -> str:
        if not self._tokens:
            raise _BadPatternError("the pattern ends where the name of an event is expected", len(self.text))
        return self._tokens.pop(0).text

    def _accepts(self, word: str) -> bool:
        found = bool(self._tokens) and self._tokens[0].text == word
        if found:
            self._tokens.pop(0)
        return found


def _useless(elements: tuple[PatternElement, ...], absent: tuple[str, ...]) -> Iterator[Finding]:
    """Optional events at the end, for which no sequence waits, and patterns of optional events only."""
    if all(element.least == 0 for element in elements):
        hint = "give one of them a number of 1 or more"
        yield Finding("bad-pattern", "all events of the pattern are optional", ("pattern",), hint, at=elements[0].at)
    elif not absent and elements[-1].least == 0:
        last = elements[-1]
        message = f"a sequence ends with its first event that completes it, so it never waits for {last.name!r}"
        yield Finding("bad-pattern", message, ("pattern",), "leave it out", at=last.at)
