"""The rules as they are published now: files are looked at anew for each task, and a bad new one does not displace a good one.

What was read last and was good is kept for each file, in this process and in the cache folder for others. A file that
has become unreadable, or whose rules all have something wrong with them, keeps counting as it was; one that is gone is gone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from etl.rules.files import documents_of, rule_files, rules_of
from etl.rules.rule import Problem, RuleSet
from etl.rules.sigma import Document
from etl.scanner import kept

log = logging.getLogger("sluice.rules")

State = tuple[tuple[str, int, int], ...]
"""Of each file its path, when it changed, and its size."""


@dataclass(frozen=True)
class Good:
    """Files as they were when they were good."""

    files: Mapping[str, tuple[Document, ...]]
    state: State = ()


def published(patterns: tuple[str, ...], placeholders: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> RuleSet:
    """The rules of all files that patterns stand for; read again only when one has changed."""
    return _read(patterns, state_of(patterns), placeholders)


def state_of(patterns: Sequence[str]) -> State:
    """Changes when a file does, comes or goes."""
    seen = []
    for path in rule_files(patterns):
        try:
            found = os.stat(path)
        except OSError:  # gone since it was listed
            continue
        seen.append((path, found.st_mtime_ns, found.st_size))
    return tuple(seen)


@lru_cache(maxsize=4)
def _read(patterns: tuple[str, ...], state: State, placeholders: tuple[tuple[str, tuple[str, ...]], ...]) -> RuleSet:
    place = kept.place(f"rules {os.getcwd()} {patterns}")
    before = kept.load(place, Good) or Good({})
    problems: list[Problem] = []
    files: dict[str, tuple[Document, ...]] = {}
    good: dict[str, tuple[Document, ...]] = {}
    unchanged = set(before.state)
    for one in state:
        path, known = one[0], before.files.get(one[0])
        if known is None or one not in unchanged:
            files[path], wrong = _changed(path, known, placeholders)
            problems += wrong
        else:
            files[path], wrong = known, []
        if known is not None or not wrong:
            good[path] = files[path]
    if (after := Good(good, tuple(one for one in state if one[0] in good))) != before:
        kept.save(place, after)
    return rules_of(files, dict(placeholders), problems)


def _changed(
    path: str, known: tuple[Document, ...] | None, placeholders: tuple[tuple[str, tuple[str, ...]], ...]
) -> tuple[tuple[Document, ...], list[Problem]]:
    """A file that is new or another: its documents, or those known before when something is wrong with it."""
    documents, wrong = documents_of(path)
    if known is None:
        return tuple(documents), wrong
    wrong = wrong or list(rules_of({path: documents}, dict(placeholders)).problems)
    if not wrong:
        return tuple(documents), []
    log.warning("%s; the rules of this file stay as they were", wrong[0])
    return known, wrong
