"""What a recipe says of the lines it reads, told from its file and its samples without building it.

A line's terms are its words and, with words and numbers made one letter each, what five characters in a row look like
(``^9-9-``, ``a[9]:``): lines of one format share most of them whatever they tell. A term that few recipes have counts
more than one that many have.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SAMPLE_BYTES, SAMPLE_LINES = 64 << 10, 100
"""How much of a recipe's sample is looked at."""
SHAPE_CHARS, WORDS_CHARS = 400, 2_000
"""How much of a line is looked at: for its shape, which is at its beginning, and for its words."""
WINDOW = 5
"""Characters in a row that make a term."""

_WORD = re.compile(r"[A-Za-z_]{3,24}")
_LETTER, _DIGIT = ord("a"), ord("9")
_KINDS = bytes(_DIGIT if chr(c).isdigit() and c < 128 else _LETTER if c > 127 or chr(c).isalpha() else c for c in range(256))
_RUN = re.compile(rb"(a|9)\1+")


@dataclass(frozen=True, eq=False)
class Signature:
    """A recipe's terms, and the names of the members that its parsers declare, without the path in front of them."""

    name: str
    path: Path
    terms: frozenset[str | bytes]
    keys: frozenset[str]


def signatures(recipes: Mapping[str, Path]) -> list[Signature]:
    """Those of recipes by name; a file that is no YAML has none."""
    return [_signature(name, path) for name, path in recipes.items()]


def _signature(name: str, path: Path) -> Signature:
    try:
        text = path.read_text("utf-8")
        root = yaml.load(text, Loader=yaml.CSafeLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return Signature(name, path, frozenset(), frozenset())
    found: set[str | bytes] = set(_WORD.findall(text))
    for line in _lines(root.get("tests") if isinstance(root, dict) else None, path.parent):
        found |= terms(line)
    return Signature(name, path, frozenset(found), frozenset(_keys(root)))


def terms(line: str) -> set[str | bytes]:
    """A line's words and the shapes in it."""
    kinds = line[:SHAPE_CHARS].encode("utf-8", "replace").translate(_KINDS)
    shape = b"^" + _RUN.sub(rb"\1", kinds)
    return {shape[at : at + WINDOW] for at in range(len(shape) - WINDOW + 1)} | set(_WORD.findall(line[:WORDS_CHARS]))


def _lines(tests: Any, folder: Path) -> Iterator[str]:
    """The lines that tests give to read: inline, and of files."""
    for value in _values(tests, "input"):
        yield from (text for text in _texts(value) if not text.startswith(".."))
        for name in _values(value, "file"):
            path = folder / str(name)
            if path.is_file():
                with path.open("rb") as file:
                    yield from file.read(SAMPLE_BYTES).decode("utf-8", "replace").splitlines()[:SAMPLE_LINES]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.splitlines()
    else:
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from _texts(item)


def _values(value: Any, key: str) -> Iterator[Any]:
    """What stands under a key, wherever it is."""
    if isinstance(value, dict):
        if key in value:
            yield value[key]
        for item in value.values():
            yield from _values(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, key)


def _keys(root: Any) -> Iterator[str]:
    """The last name of each member that a step declares under ``fields`` or points to under ``paths``."""
    for steps in _values(root, "steps"):
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, dict) and step.get("type") != "set" and isinstance(step.get("fields"), dict):
                paths = step["paths"] if isinstance(step.get("paths"), dict) else {}
                yield from (last(str(paths.get(name, name))) for name in step["fields"])


def last(path: str) -> str:
    """``event_id`` for ``winlog.event_id``."""
    return path.rpartition(".")[2].strip('"]')


def by_likeness(lines: Sequence[str], known: Sequence[Signature]) -> dict[Signature, float]:
    """How much of the lines' terms, as far as any recipe has them, each recipe has: from 0 to 1, the most first."""
    owners = Counter(term for one in known for term in one.terms)
    found = Counter(term for line in lines for term in terms(line))
    weights = {term: count * math.log((len(known) + 1) / owners[term]) for term, count in found.items() if term in owners}
    whole = sum(weights.values()) or 1.0
    likeness = {one: sum(weight for term, weight in weights.items() if term in one.terms) / whole for one in known}
    return dict(sorted(likeness.items(), key=lambda pair: pair[1], reverse=True))


RARE_OWNERS, RARE_LETTERS = 3, 5
"""How many recipes may have a word that is one's own, and how long it is at the least."""


def own_words(name: str, lines: Sequence[str], known: Sequence[Signature]) -> float:
    """The share of lines with a word that few recipes have, and this one does."""
    owners = Counter(term for one in known for term in one.terms if isinstance(term, str))
    own = {
        term
        for one in known
        if one.name == name
        for term in one.terms
        if isinstance(term, str) and len(term) >= RARE_LETTERS and owners[term] <= RARE_OWNERS
    }
    return sum(1 for line in lines if own.intersection(_WORD.findall(line))) / len(lines)


def rarity(known: Sequence[Signature]) -> Mapping[str, float]:
    """A declared member's name → 1 where one recipe declares it, towards 0 where all do."""
    owners = Counter(key for one in known for key in one.keys)
    return {key: 1 - math.log(count) / math.log(len(known) + 1) for key, count in owners.items()}
