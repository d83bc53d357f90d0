"""The current rules of files and tables: read again when they change, and kept as they were when a new version is bad.

The last good version of each file, and of each row of a table, is stored in this process and in the cache folder for other
processes. It stays in use when the new version cannot be read, is empty, or has a new problem. A removed file has no rules.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from etl.columns import disk_cache
from etl.rules.compiled_rules import StreamSchema
from etl.rules.files import NO_RULE, Document, FileStates, file_states, parse_documents, read_documents
from etl.rules.reader import rules_from_documents
from etl.rules.rule import RuleProblem, RuleSet

log = logging.getLogger("sluice.rules")

Placeholders = tuple[tuple[str, tuple[str, ...]], ...]


class RuleText(NamedTuple):
    """The YAML of rules from a row of a table."""

    name: str
    text: str
    origin: str = ""
    """Distinguishes tables of one name: the last good version of one is not used for another."""

    @property
    def state(self) -> tuple[str, int, int]:
        """A value that differs after the text has changed."""
        digest = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).digest()
        return self.name, int.from_bytes(digest[:8], "big"), len(self.text)


@dataclass(frozen=True)
class LastGoodVersions:
    """The documents of the last good versions of files."""

    files: Mapping[str, tuple[Document, ...]]
    state: FileStates = ()


def read_current_rules(
    patterns: tuple[str, ...], texts: tuple[RuleText, ...], placeholders: Placeholders, stream: StreamSchema
) -> RuleSet:
    """The rules of the files that match patterns, and of texts; read again only if one has changed."""
    return _read(patterns, file_states(patterns), texts, placeholders, stream)


@lru_cache(maxsize=4)
def _read(
    patterns: tuple[str, ...],
    files: FileStates,
    texts: tuple[RuleText, ...],
    placeholders: Placeholders,
    stream: StreamSchema,
) -> RuleSet:
    origins = sorted({text.origin for text in texts})
    of = f"rules {disk_cache.folder_of([*patterns, *origins])} {patterns} {origins} {stream.taxonomy} {stream.schema}"
    file = disk_cache.cache_file(of, Path(__file__).parents[1])
    before = disk_cache.load(file, LastGoodVersions) or LastGoodVersions({})
    reload = _Reload(before, {text.name: text.text for text in texts}, placeholders, stream)
    for state in (*files, *(text.state for text in texts)):
        reload.read(state)
    if (after := reload.last_good()) != before:
        disk_cache.save(file, after)
    found = rules_from_documents(reload.documents, dict(placeholders), reload.problems)
    return replace(found, outdated=tuple(reload.outdated))


_logged: dict[str, RuleProblem] = {}
"""The problem that was logged last of each bad file."""


def _log_once(path: str, problem: RuleProblem) -> None:
    """Log a problem once in a process, not again with each change of another file."""
    if _logged.get(path) != problem:
        _logged[path] = problem
        log.warning("%s; the rules of this file stay as they were", problem)


class _Reload:
    """Reads files and texts one by one, and falls back on the last good version of each."""

    def __init__(
        self, before: LastGoodVersions, texts: Mapping[str, str], placeholders: Placeholders, stream: StreamSchema
    ) -> None:
        self._before, self._texts, self._placeholders, self._stream = before, texts, dict(placeholders), stream
        self._unchanged = set(before.state)
        self._good: list[tuple[str, int, int]] = []
        self.documents: dict[str, tuple[Document, ...]] = {}
        self.problems: list[RuleProblem] = []
        self.outdated: list[RuleProblem] = []

    def read(self, state: tuple[str, int, int]) -> None:
        """Read a file, or a text, in this state."""
        path, known = state[0], self._before.files.get(state[0])
        if known is not None and state in self._unchanged:
            self.documents[path] = known
            self._good.append(state)
        elif known is None:
            self._read_new(state)
        else:
            self._read_changed(state, known)

    def last_good(self) -> LastGoodVersions:
        """The versions to fall back on. A file that is bad now has no state, so that it is read again next time."""
        good = {state[0] for state in self._good} | (self._before.files.keys() & self.documents.keys())
        return LastGoodVersions(
            {path: documents for path, documents in self.documents.items() if path in good}, tuple(self._good)
        )

    def _read_new(self, state: tuple[str, int, int]) -> None:
        self.documents[state[0]], wrong = self._read_documents(state[0])
        self.problems += wrong
        if not wrong:
            self._good.append(state)

    def _read_changed(self, state: tuple[str, int, int], known: tuple[Document, ...]) -> None:
        path = state[0]
        documents, wrong = self._read_documents(path)
        if not documents and not wrong:
            wrong = [RuleProblem(path, 1, f"{NO_RULE} any more; to end its rules, remove it")]
        if wrong := wrong or self._new_problems(path, documents, known):
            _log_once(path, wrong[0])
            self.outdated += wrong
        else:
            _logged.pop(path, None)
            self._good.append(state)
        self.documents[path] = known if wrong else documents

    def _new_problems(self, path: str, documents: Sequence[Document], known: Sequence[Document]) -> list[RuleProblem]:
        """The problems of a file's rules that its last good version does not have: one bad rule does not block changes."""
        now, before = (
            self._stream.problems(rules_from_documents({path: some}, self._placeholders)) if some else ()
            for some in (documents, known)
        )
        known_before = {(problem.rule, problem.message) for problem in before}
        return [problem for problem in now if (problem.rule, problem.message) not in known_before]

    def _read_documents(self, path: str) -> tuple[tuple[Document, ...], list[RuleProblem]]:
        documents, wrong = parse_documents(path, self._texts[path]) if path in self._texts else read_documents(path)
        return tuple(documents), wrong
