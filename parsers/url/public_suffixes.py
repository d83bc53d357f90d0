"""Domains → registered domain, subdomain and public suffix, by the rules of a file: the Public Suffix List.

Source of its format and of the algorithm: publicsuffix.org, "Format". All its sections count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa

from parsers.common.distinct_lookup import DistinctLookup

_NUMERIC = re.compile(r"[\[\d].*[\]\d.]")
"""An address in brackets, or digits at both ends: not all such are addresses, but none is a name under a suffix."""

Parts: TypeAlias = tuple[str | None, str | None, str | None]
"""Registered domain, subdomain, suffix."""

_NOTHING: Parts = (None, None, None)

_SCHEMA = pa.schema([(name, pa.string()) for name in ("registered_domain", "subdomain", "top_level_domain")])


class PublicSuffixes:
    """The rules of a list, and a cache of the domains that were looked up."""

    def __init__(self, rules: Iterable[str]) -> None:
        self._rules = frozenset(form for rule in rules for form in _forms(rule))
        self._lookup = DistinctLookup(_SCHEMA, self.parts)

    @classmethod
    def read(cls, path: str) -> PublicSuffixes:
        """The list of a file, read again when the file has been replaced. Raises OSError or ValueError."""
        found = os.stat(path)
        return _read(path, (found.st_mtime_ns, found.st_ino))

    def columns(self, domains: pa.StringArray) -> dict[str, pa.Array]:
        """The three columns; each distinct domain is looked up once."""
        return dict(self._lookup(domains).columns)

    def parts(self, domain: str) -> Parts:
        """The parts of one domain in lower case; all are null for an address, and the first two for a suffix itself."""
        labels = domain.removesuffix(".").split(".")
        if _NUMERIC.fullmatch(domain) or "" in labels:
            return _NOTHING
        begin = self._suffix(labels)
        if begin == 0:
            return (None, None, ".".join(labels))
        return (".".join(labels[begin - 1 :]), ".".join(labels[: begin - 1]) or None, ".".join(labels[begin:]))

    def _suffix(self, labels: list[str]) -> int:
        """Where the suffix begins: that of the longest rule, or the last label."""
        for begin in range(max(0, len(labels) - MAX_LABELS), len(labels)):
            name, under = ".".join(labels[begin:]), ".".join(["*", *labels[begin + 1 :]])
            if "!" + name in self._rules:
                return begin + 1
            if name in self._rules or under in self._rules:
                return begin
        return len(labels) - 1


MAX_LABELS = 10
"""Labels of a suffix; no rule has as many."""


@lru_cache(maxsize=4)
def _read(path: str, state: tuple[int, int]) -> PublicSuffixes:
    with open(path, encoding="utf-8") as lines:
        rules = [line.split()[0].lower() for line in lines if line.strip() and not line.startswith("//")]
    if not rules:
        raise ValueError("it holds no rules")
    return PublicSuffixes(rules)


def _forms(rule: str) -> Iterable[str]:
    """A rule as it is written, and as the domain name system writes it."""
    yield rule
    if not rule.isascii():
        mark, name = ("!", rule[1:]) if rule.startswith("!") else ("", rule)
        try:
            yield mark + ".".join(label.encode("idna").decode() for label in name.split("."))
        except UnicodeError:
            return
