"""The text of a pattern → its parts, with findings about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.api import Finding, closest, cut
from etl.steps.sequences.pattern import Pattern, PatternElement, PatternGroup, PatternItem


@dataclass
class _Token:
    text: str
    at: int


_TOKEN = re.compile(r"\s*(?P<token>[A-Za-z_]\w*|\{[^{}]*\}|.)", re.DOTALL)
_COUNTED = re.compile(r"\{\s*(?P<minimum>\d{1,9})\s*(?P<open>,\s*(?P<maximum>\d{0,9})\s*)?\}")
_QUANTIFIERS = {"?": (0, 1), "+": (1, None), "*": (0, None)}
WORDS = ("then", "next", "not", "or", "consecutive", "within")
"""Words that no event can have as its name."""

_EXAMPLE = "write for example failed{5,} then accepted"
_QUANTIFIER_HINT = "write {5}, {5,}, {2,5}, ?, + or *"

_MAX_DEPTH = 50
"""Of groups in groups."""


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
            items, absent = self._items(0)
        except _BadPatternError as error:
            return Pattern(findings=(error.finding,))
        return Pattern(items, absent, tuple(_useless(items, absent)))

    def _items(self, depth: int) -> tuple[tuple[PatternItem, ...], tuple[str, ...]]:
        """Those up to the end of the text, or of an alternative of a group that is so deep in others."""
        items: list[PatternItem] = []
        absent: tuple[str, ...] = ()
        follows = False
        while True:
            at = self._at
            if self._accepts("not"):
                absent += self._absent(bool(items), follows, at)
            else:
                items.append(self._item(follows, absent, depth))
                absent = ()
            if not self._tokens or (depth and self._tokens[0].text in "|)"):
                if depth and absent:
                    hint = "put it between two events, or at the end of the whole pattern"
                    raise _BadPatternError("a group ends with an event that occurs", at, hint)
                return tuple(items), absent
            follows = self._read_separator()

    def _read_separator(self) -> bool:
        """Whether the next element follows directly."""
        at, word = self._at, self._word()
        if word == "within":
            raise _BadPatternError("the time is an option of its own", at, "leave it out here, and give within: 10m")
        if word in {"not", "next"}:
            raise _BadPatternError(f"'then' stands before {word!r}", at, f"write then {word}")
        if word == ")":
            raise _BadPatternError("')' closes no group", at, "leave it out")
        if word in {"|", "or"}:
            raise _BadPatternError("alternatives stand in brackets", at, "write for example (a | b) then c")
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

    def _item(self, follows: bool, absent: tuple[str, ...], depth: int) -> PatternItem:
        at = self._at
        if self._accepts("("):
            return PatternGroup(alternatives=self._alternatives(depth + 1, at), **self._repetition(at, follows, absent))
        return PatternElement(name=self._name(), **self._repetition(at, follows, absent))

    def _alternatives(self, depth: int, at: int) -> tuple[tuple[PatternItem, ...], ...]:
        if depth > _MAX_DEPTH:
            raise _BadPatternError(f"more than {_MAX_DEPTH} groups are nested", at, "leave brackets out")
        found = [self._items(depth)[0]]
        while self._accepts("|"):
            found.append(self._items(depth)[0])
        if not self._accepts(")"):
            raise _BadPatternError("the group has no ')'", at, "add ')' after its last event")
        return tuple(found)

    def _repetition(self, at: int, follows: bool, absent: tuple[str, ...]) -> dict[str, Any]:
        minimum, maximum = self._quantifier()
        repeated = (minimum, maximum) != (1, 1)
        reluctant = repeated and self._accepts("?")
        possessive = repeated and not reluctant and self._accepts("+")
        found = {"at": at, "minimum": minimum, "maximum": maximum, "next": follows, "consecutive": self._accepts("consecutive")}
        return {**found, "reluctant": reluctant, "possessive": possessive, "absent": absent}

    def _quantifier(self) -> tuple[int, int | None]:
        if not self._tokens or self._tokens[0].text[0] not in "{?+*":
            return 1, 1
        at, word = self._at, self._word()
        if word in _QUANTIFIERS:
            return _QUANTIFIERS[word]
        found = _COUNTED.fullmatch(word)
        if not found:
            raise _BadPatternError(f"{cut(word, 40)} is not a number of events", at, _QUANTIFIER_HINT)
        minimum = int(found["minimum"])
        maximum = (int(found["maximum"]) if found["maximum"] else None) if found["open"] else minimum
        if maximum is not None and maximum < max(minimum, 1):
            raise _BadPatternError(f"{word} allows no number of events", at, _QUANTIFIER_HINT)
        return minimum, maximum

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


def _useless(items: tuple[PatternItem, ...], absent: tuple[str, ...]) -> Iterator[Finding]:
    """Patterns and alternatives of optional events only, and optional events at the end, for which no sequence waits."""
    for part in Pattern(items).parts:
        for one in part.alternatives if isinstance(part, PatternGroup) else ():
            if all(item.minimum == 0 for item in one):
                hint = "make the group optional, with ? after its ')', and not all that is in it"
                yield Finding("bad-pattern", "all events of a group are optional", ("pattern",), hint, at=one[0].at)
                return
    if all(item.minimum == 0 for item in items):
        hint = "give one of them a number of 1 or more"
        yield Finding("bad-pattern", "all events of the pattern are optional", ("pattern",), hint, at=items[0].at)
    elif not absent and (last := next(_optional_ends(items), None)):
        waited = repr(last.name) if isinstance(last, PatternElement) else "the group at its end"
        message = f"a sequence ends with its first event that completes it, so it never waits for {waited}"
        yield Finding("bad-pattern", message, ("pattern",), "leave it out", at=last.at)


def _optional_ends(items: tuple[PatternItem, ...]) -> Iterator[PatternItem]:
    """The optional parts with which a sequence could end."""
    if items[-1].minimum == 0:
        yield items[-1]
    elif isinstance(items[-1], PatternGroup):
        for one in items[-1].alternatives:
            yield from _optional_ends(one)
