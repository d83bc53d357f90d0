"""The file of the stream's names as it is now, or as it was when it was good: a bad new one does not displace a good one.

What was read last and was good is kept in this process, and in the cache folder for others.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from etl.columns import disk_cache
from etl.rules.rule import Problem
from etl.rules.taxonomy import Taxonomy, TaxonomyError, found, read_taxonomy

log = logging.getLogger("sluice.rules")


@dataclass(frozen=True)
class Standing:
    """The names that count."""

    taxonomy: Taxonomy
    refused: tuple[Problem, ...] = ()
    """What is wrong with the file now; the names are those of before."""


def standing_taxonomy(path: str | None) -> Standing:
    """The names of a file. Raises TaxonomyError when it is bad and was never good."""
    return _standing(path, state(path)) if path is not None else Standing(Taxonomy())


def state(path: str | None) -> tuple[int, int] | None:
    """Changes when the file does."""
    try:
        seen = os.stat(found(path)) if path is not None else None
    except OSError:
        return None
    return (seen.st_mtime_ns, seen.st_size) if seen else None


@lru_cache(maxsize=8)
def _standing(path: str, _: tuple[int, int] | None) -> Standing:
    file = disk_cache.cache_file(f"taxonomy {os.getcwd()} {path}", Path(__file__).parents[1])
    before = disk_cache.load(file, Taxonomy)
    try:
        now = read_taxonomy(path)
    except TaxonomyError as error:
        if before is None:
            raise
        log.warning("%s; names of fields, log sources and placeholders stay as they were", error)
        return Standing(before, (Problem(path, 1, str(error)),))
    if now != before:
        disk_cache.save(file, now)
    return Standing(now)
