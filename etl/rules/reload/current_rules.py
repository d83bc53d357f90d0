"""The rules as they are published now: what holds them is looked at anew for each task, and a bad new one does not displace a
good one.

What was read last and was good is kept for each file and each row of a table, in this process and in the cache folder for
others. One that has become unreadable or empty, or has a rule with something wrong, keeps counting as it was; one that is gone
is gone.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from etl.columns import disk_cache
from etl.rules.compiled_rules import Stream
from etl.rules.files import NO_RULE, FileStates, documents_in, documents_of, rules_of, states_of
from etl.rules.rule import Problem, RuleSet
from etl.rules.sigma.reader import Document

log = logging.getLogger("sluice.rules")

Placeholders = tuple[tuple[str, tuple[str, ...]], ...]


class Text(NamedTuple):
    """Rules that are no file: a row of a table."""

    name: str
    text: str
    origin: str = ""
    """Tells tables of one name apart: what one of them had when it was good is nothing to another."""

    @property
    def state(self) -> tuple[str, int, int]:
        """Changes when the text does."""
        digest = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).digest()
        return self.name, int.from_bytes(digest[:8], "big"), len(self.text)


@dataclass(frozen=True)
class Good:
    """Files as they were when they were good."""

    files: Mapping[str, tuple[Document, ...]]
    state: FileStates = ()


def published(patterns: tuple[str, ...], texts: tuple[Text, ...], placeholders: Placeholders, stream: Stream) -> RuleSet:
    """The rules of all files that patterns stand for, and of texts; read again only when one has changed."""
    return _read(patterns, states_of(patterns), texts, placeholders, stream)


@lru_cache(maxsize=4)
def _read(
    patterns: tuple[str, ...], files: FileStates, texts: tuple[Text, ...], placeholders: Placeholders, stream: Stream
) -> RuleSet:
    origins = sorted({text.origin for text in texts})
    of = f"rules {os.getcwd()} {patterns} {origins} {stream.taxonomy} {stream.schema}"
    file = disk_cache.cache_file(of, Path(__file__).parents[1])
    before = disk_cache.load(file, Good) or Good({})
    reading = _Reading(before, {text.name: text.text for text in texts}, placeholders, stream)
    for one in (*files, *(text.state for text in texts)):
        reading.take(one)
    if (after := reading.good()) != before:
        disk_cache.save(file, after)
    found = rules_of(reading.documents, dict(placeholders), reading.problems)
    return replace(found, refused=tuple(reading.refused))


_refused: dict[str, Problem] = {}
"""What was said last of files that have become bad."""


def _say(path: str, wrong: Problem) -> None:
    """Once in a process, not with each change of another file."""
    if _refused.get(path) != wrong:
        _refused[path] = wrong
        log.warning("%s; the rules of this file stay as they were", wrong)


class _Reading:
    """Files and texts, one after the other, beside what was known of them."""

    def __init__(self, before: Good, texts: Mapping[str, str], placeholders: Placeholders, stream: Stream) -> None:
        self._before, self._texts, self._placeholders, self._stream = before, texts, dict(placeholders), stream
        self._unchanged = set(before.state)
        self._good: list[tuple[str, int, int]] = []
        self.documents: dict[str, tuple[Document, ...]] = {}
        self.problems: list[Problem] = []
        self.refused: list[Problem] = []

    def take(self, one: tuple[str, int, int]) -> None:
        """A file in its present state."""
        path, known = one[0], self._before.files.get(one[0])
        if known is not None and one in self._unchanged:
            self.documents[path] = known
            self._good.append(one)
        elif known is None:
            self._new(one)
        else:
            self._changed(one, known)

    def good(self) -> Good:
        """What to fall back on from now on: a file that is refused now is read again when something changes."""
        good = {one[0] for one in self._good} | (self._before.files.keys() & self.documents.keys())
        return Good({path: documents for path, documents in self.documents.items() if path in good}, tuple(self._good))

    def _new(self, one: tuple[str, int, int]) -> None:
        self.documents[one[0]], wrong = self._documents(one[0])
        self.problems += wrong
        if not wrong:
            self._good.append(one)

    def _changed(self, one: tuple[str, int, int], known: tuple[Document, ...]) -> None:
        path = one[0]
        documents, wrong = self._documents(path)
        if not documents and not wrong:
            wrong = [Problem(path, 1, f"{NO_RULE} any more; to end its rules, remove it")]
        if wrong := wrong or self._new_problems(path, documents, known):
            _say(path, wrong[0])
            self.refused += wrong
        else:
            _refused.pop(path, None)
            self._good.append(one)
        self.documents[path] = known if wrong else documents

    def _new_problems(self, path: str, documents: Sequence[Document], known: Sequence[Document]) -> list[Problem]:
        """What is wrong with the rules of a file, and was not before: who mends one rule need not mend all."""
        found, before = (
            self._stream.problems(rules_of({path: some}, self._placeholders)) if some else () for some in (documents, known)
        )
        known_before = {(problem.rule, problem.message) for problem in before}
        return [problem for problem in found if (problem.rule, problem.message) not in known_before]

    def _documents(self, path: str) -> tuple[tuple[Document, ...], list[Problem]]:
        documents, wrong = documents_in(path, self._texts[path]) if path in self._texts else documents_of(path)
        return tuple(documents), wrong
