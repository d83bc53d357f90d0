"""The current taxonomy file, or its last good version if the file has become bad.

The last good version is stored in this process, and in the cache folder for other processes.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from etl.columns import disk_cache
from etl.rules.rule import RuleProblem
from etl.rules.sigma.taxonomy import Taxonomy, TaxonomyError, read_taxonomy, taxonomy_path

log = logging.getLogger("sluice.rules")


@dataclass(frozen=True)
class CurrentTaxonomy:
    """The taxonomy that rules use now."""

    taxonomy: Taxonomy
    outdated: tuple[RuleProblem, ...] = ()
    """What is wrong with the file; the taxonomy is the last good one."""


def current_taxonomy(path: str | None) -> CurrentTaxonomy:
    """Read a file again if it has changed. Raises TaxonomyError if it is bad and there is no good version."""
    return _read(path, taxonomy_state(path)) if path is not None else CurrentTaxonomy(Taxonomy())


def taxonomy_state(path: str | None) -> tuple[int, int] | None:
    """A value that differs after the file has changed: modification time in nanoseconds, and size."""
    try:
        stat = os.stat(taxonomy_path(path)) if path is not None else None
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size) if stat else None


@lru_cache(maxsize=8)
def _read(path: str, _: tuple[int, int] | None) -> CurrentTaxonomy:
    file = disk_cache.cache_file(f"taxonomy {disk_cache.folder_of([path])} {path}", Path(__file__).parents[1])
    last_good = disk_cache.load(file, Taxonomy)
    try:
        now = read_taxonomy(path)
    except TaxonomyError as error:
        if last_good is None:
            raise
        log.warning("%s; names of fields, log sources and placeholders stay as they were", error)
        return CurrentTaxonomy(last_good, (RuleProblem(path, 1, str(error)),))
    if now != last_good:
        disk_cache.save(file, now)
    return CurrentTaxonomy(now)
