"""Sets of characters: ASCII as a bit mask, the rest as ranges and properties that RE2 and ``regex`` both read."""

from __future__ import annotations

from dataclasses import dataclass, replace

ASCII = (1 << 128) - 1
"""The mask of all ASCII characters."""


@dataclass(frozen=True, slots=True)
class CharClass:
    """``ascii``: bit n is character n. ``wide``: members beyond ASCII; if ``others`` is true, all beyond ASCII but these."""

    ascii: int
    wide: tuple[str, ...] = ()
    others: bool = False

    def inverted(self) -> CharClass:
        """All characters that are not in it."""
        return CharClass(ASCII & ~self.ascii, self.wide, not self.others)

    def union(self, other: CharClass) -> CharClass:
        """Characters in either. Raises ValueError if the part beyond ASCII cannot be written as one class."""
        ascii_ = self.ascii | other.ascii
        if self.others == other.others:
            if self.others and self.wide != other.wide:
                return CharClass(ascii_, (), True) if not (self.wide and other.wide) else _no_form()
            return CharClass(ascii_, tuple(dict.fromkeys(self.wide + other.wide)), self.others)
        open_class, added = (self, other) if self.others else (other, self)
        if not open_class.wide or not added.wide or open_class.wide == added.wide:
            return CharClass(ascii_, open_class.wide if not added.wide else (), True)
        return _no_form()

    def intersection(self, other: CharClass) -> CharClass:
        """Characters in both."""
        return self.inverted().union(other.inverted()).inverted()

    def without(self, other: CharClass) -> CharClass:
        """Characters of it that are not in ``other``."""
        return self.intersection(other.inverted())

    def meets(self, other: CharClass) -> bool:
        """Whether some character may be in both: exact for ASCII; true in case of doubt for the rest."""
        if self.ascii & other.ascii:
            return True
        mine, theirs = bool(self.wide) or self.others, bool(other.wide) or other.others
        complements = self.wide == other.wide and self.others != other.others
        return mine and theirs and not complements

    def ignoring_case(self) -> CharClass:
        """With the other case of each of its ASCII letters."""
        upper, lower = self.ascii & UPPER.ascii, self.ascii & LOWER.ascii
        return CharClass(self.ascii | upper << 32 | lower >> 32, self.wide, self.others)

    def ignoring_case_everywhere(self) -> CharClass:
        """With the other case of its ASCII letters, and of its single characters beyond ASCII, not of ranges and properties.

        A letter whose other case is several characters, as that of ``ß``, has none.
        """
        single = (char for char in self.wide if len(char) == 1 and not self.others)
        cases = (case for char in single for case in (char.lower(), char.upper()) if len(case) == 1 and ord(case) > 127)
        return replace(self.ignoring_case(), wide=tuple(dict.fromkeys((*self.wide, *cases))))

    @property
    def empty(self) -> bool:
        """True when no character is in it."""
        return not self.ascii and not self.wide and not self.others

    def text(self) -> str:
        """The class in the syntax that RE2 and the package ``regex`` share."""
        if self == ANY:
            return "(?s:.)"
        if self.others:
            return f"[^{_ranges(ASCII & ~self.ascii)}{''.join(self.wide)}]"
        single = self.ascii and not self.ascii & (self.ascii - 1) and not self.wide
        if single:
            return escape_character(chr(self.ascii.bit_length() - 1))
        return f"[{_ranges(self.ascii)}{''.join(self.wide)}]"


def _no_form() -> CharClass:
    raise ValueError("this mix of negated and plain non-ASCII classes is not supported")


def between(low: str, high: str) -> CharClass:
    """The characters from ``low`` to ``high``, both included."""
    first, last = ord(low), ord(high)
    if first > last:
        raise ValueError(f"the range {low}-{high} is backwards")
    mask = 0
    if first < 128:
        mask = ((1 << (min(last, 127) - first + 1)) - 1) << first
    if last < 128:
        return CharClass(mask)
    start = chr(max(first, 128))
    return CharClass(mask, (start if start == high else f"{start}-{high}",))


def one_of(characters: str) -> CharClass:
    """The set of these characters."""
    found = CharClass(0)
    for char in characters:
        found = found.union(between(char, char))
    return found


def escape_character(char: str) -> str:
    """One character as a regular expression, valid inside and outside a class."""
    if char.isalnum() or char in " _" or ord(char) > 127:
        return char
    return f"\\{char}" if char.isprintable() else f"\\x{ord(char):02x}"


def _ranges(mask: int) -> str:
    """Bit mask → ``a-z0-9``."""
    parts = []
    at = 0
    while mask >> at:
        if not mask >> at & 1:
            at += 1
            continue
        end = at
        while mask >> (end + 1) & 1:
            end += 1
        parts.append(escape_character(chr(at)) if at == end else f"{escape_character(chr(at))}-{escape_character(chr(end))}")
        at = end + 1
    return "".join(parts)


ANY = CharClass(ASCII, (), True)
DIGIT = between("0", "9")
UPPER = between("A", "Z")
LOWER = between("a", "z")
WORD = DIGIT.union(UPPER).union(LOWER).union(one_of("_"))
SPACE = one_of(" \t\n\r\f\v")
HEX = DIGIT.union(between("A", "F")).union(between("a", "f"))

ESCAPES = {
    "d": DIGIT,
    "D": DIGIT.inverted(),
    "w": WORD,
    "W": WORD.inverted(),
    "s": SPACE,
    "S": SPACE.inverted(),
    "h": HEX,
    "H": HEX.inverted(),
}
"""Ruby's shorthands: ASCII, and ``\\h`` is a hexadecimal digit."""

POSIX = {
    "alnum": CharClass(DIGIT.union(UPPER).union(LOWER).ascii, (r"\p{L}", r"\p{M}", r"\p{Nd}")),
    "alpha": CharClass(UPPER.union(LOWER).ascii, (r"\p{L}", r"\p{M}")),
    "ascii": CharClass(ASCII),
    "blank": CharClass(one_of(" \t").ascii, (r"\p{Zs}",)),
    "cntrl": CharClass(between("\0", "\x1f").ascii | 1 << 127, (r"\p{Cc}",)),
    "digit": CharClass(DIGIT.ascii, (r"\p{Nd}",)),
    "graph": CharClass(between("!", "~").ascii, (r"\p{L}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}")),
    "lower": CharClass(LOWER.ascii, (r"\p{Ll}",)),
    "print": CharClass(between(" ", "~").ascii, (r"\p{L}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{Zs}")),
    "punct": CharClass(between("!", "~").without(DIGIT.union(UPPER).union(LOWER)).ascii, (r"\p{P}",)),
    "space": CharClass(SPACE.ascii, ("\x85", r"\p{Z}")),
    "upper": CharClass(UPPER.ascii, (r"\p{Lu}",)),
    "word": CharClass(WORD.ascii, (r"\p{L}", r"\p{M}", r"\p{Nd}", r"\p{Pc}")),
    "xdigit": HEX,
}
"""POSIX brackets include characters beyond ASCII, as in Ruby."""
