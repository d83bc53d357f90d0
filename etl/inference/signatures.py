"""Signatures of recipes: the terms of the lines that they read, taken from their files and samples without building them.

A line's terms are its words, and windows of five characters of its shape, in which each word and number is one letter
(``^9-9-``, ``a[9]:``): lines of one format share most shapes. A term that few recipes have counts more.
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
"""Bytes and lines read of a recipe's sample."""
SHAPE_CHARS, WORDS_CHARS = 400, 2_000
"""Characters of a line used for its shape and for its words."""
WINDOW = 5
"""Characters of a shape that make a term."""

_WORD = re.compile(r"[A-Za-z_]{3,24}")
_LETTER, _DIGIT = ord("a"), ord("9")
_KINDS = bytes(_DIGIT if chr(c).isdigit() and c < 128 else _LETTER if c > 127 or chr(c).isalpha() else c for c in range(256))
_RUN = re.compile(rb"(a|9)\1+")


@dataclass(frozen=True, eq=False)
class Signature:
    """A recipe's terms, and the last names of the members that its parsers declare."""

    name: str
    path: Path
    terms: frozenset[str | bytes]
    keys: frozenset[str]
    reads_file: bool = False
    """Whether the recipe has one source, of the type ``file``: only such a recipe reads a sample."""


def signatures(recipes: Mapping[str, Path]) -> list[Signature]:
    """The signatures of recipes; a file that is not valid YAML has none."""
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
    return Signature(name, path, frozenset(found), frozenset(_keys(root)), _reads_file(root))


def _reads_file(root: Any) -> bool:
    given = root if isinstance(root, dict) else {}
    named = given.get("sources")
    sources = list(named.values()) if isinstance(named, dict) else [given.get("source")]
    return len(sources) == 1 and isinstance(sources[0], dict) and sources[0].get("type") == "file"


def terms(line: str) -> set[str | bytes]:
    """A line's words and the shapes in it."""
    kinds = line[:SHAPE_CHARS].encode("utf-8", "replace").translate(_KINDS)
    shape = b"^" + _RUN.sub(rb"\1", kinds)
    return {shape[at : at + WINDOW] for at in range(len(shape) - WINDOW + 1)} | set(_WORD.findall(line[:WORDS_CHARS]))


def _lines(tests: Any, folder: Path) -> Iterator[str]:
    """The input lines of tests: inline, and from files."""
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
    """All values under a key, at any depth."""
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
                yield from (last_name(str(paths.get(name, name))) for name in step["fields"])


def last_name(path: str) -> str:
    """``event_id`` for ``winlog.event_id``."""
    return path.rpartition(".")[2].strip('"]')


def rank_by_likeness(lines: Sequence[str], known: Sequence[Signature]) -> dict[Signature, float]:
    """Signature → share (0 to 1) of the lines' known terms that it has, weighted by rarity; the largest first."""
    owners = Counter(term for one in known for term in one.terms)
    found = Counter(term for line in lines for term in terms(line))
    weights = {term: count * math.log((len(known) + 1) / owners[term]) for term, count in found.items() if term in owners}
    whole = sum(weights.values()) or 1.0
    likeness = {one: sum(weight for term, weight in weights.items() if term in one.terms) / whole for one in known}
    return dict(sorted(likeness.items(), key=lambda pair: pair[1], reverse=True))


RARE_OWNERS, RARE_LETTERS = 3, 5
"""Maximum number of recipes that may share a word of a program, and its least length."""


def share_of_own_words(name: str, lines: Sequence[str], known: Sequence[Signature]) -> float:
    """The share of lines with a word that this recipe has and few others have."""
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
