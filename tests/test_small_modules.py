"""A module of fewer than 60 lines that one other module imports is merged into it, unless there is a reason against."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from running import ROOT

PACKAGES = ("etl", "parsers", "connectors")
FEW_LINES = 60
PARTS_OF_COMPONENTS = 3
"""A name such as ``writer`` that so many folders have says where to find that part of a component."""

IMPORT = re.compile(r"^( *)from ([\w.]+) import (\([^)]*\)|.*)$", re.MULTILINE)

REASONS = {
    "connectors.database.written_batches": "two classes of storage with tests of their own; the transaction is long without them",
    "connectors.elasticsearch.time_ranges": "arithmetic without requests; the source is long without it",
    "connectors.redis.write_script": "a program in Lua",
    "etl.config.options.home_paths": "one of the passes over options; the loader calls them all",
    "etl.delivery.replay_buffer": "belongs to delivery, below Spark",
    "etl.expressions.calls.search_calls": "one of the modules that read calls, each a group of functions",
    "etl.expressions.dataframes": "the part for PySpark, which nothing else of the package imports",
    "etl.inference.grok.pattern_parts": "belongs to grok; what imports it is for all parsers",
    "etl.migration.ingest.networks": "functions in imported pipelines import it in a run, without the import itself",
    "etl.rules.correlation.sliding_windows": "the part of the evaluation that is about time, for its laws",
    "etl.rules.predicates.time_part": "a family of predicates is a module",
    "etl.rules.sigma.counts": "a rewriting of conditions, before pySigma reads them",
    "etl.running.process_memory": "reads /proc; what imports it is an HTTP server",
    "etl.sdk.function_names": "its importer is generated",
    "etl.server.app": "the HTTP application, which tests start without a server",
    "etl.spark.lane.compaction": "a task of its own",
    "etl.sql.corrections": "works on characters; its importer on tokens",
    "etl.sql.table_options.rsql_syslog": "a kind of table is a module",
    "etl.state.changes.join_sides": "the data of a join; the operator is long without it",
}
"""Why a module stays alone where the code does not show it."""


@dataclass
class _Imports:
    """Who imports a module, and whether all do so in functions, when it is needed, or for types only."""

    importers: set[str] = field(default_factory=set)
    is_late: bool = True


def test_a_small_module_with_one_importer_has_a_reason() -> None:
    small = {module for module, imports in _small_modules().items() if not imports.is_late and not _is_usual(module)}
    assert not small - set(REASONS), "merge each into the module that imports it, or give the reason in REASONS"
    assert not set(REASONS) - small, "these are larger, or have other importers: their reasons go"


def _is_usual(module: str) -> bool:
    """A kernel, which is cached by its file; or a part that components have in common."""
    name = module.rpartition(".")[2]
    return name.endswith(("kernel", "kernels")) or _names()[name] >= PARTS_OF_COMPONENTS


def _small_modules() -> dict[str, _Imports]:
    found: dict[str, _Imports] = defaultdict(_Imports)
    for path in _paths():
        for name, is_late in _imported(path):
            if name != _module(path):
                found[name].importers.add(_module(path))
                found[name].is_late &= is_late
    lines = {_module(path): path.read_text().count("\n") for path in _paths() if not path.stem.startswith("__")}
    return {name: found[name] for name, count in lines.items() if count < FEW_LINES and len(found[name].importers) == 1}


def _imported(path: Path) -> Iterator[tuple[str, bool]]:
    """The names that a module may import, and whether it does so later than when it is imported."""
    for indent, module, names in IMPORT.findall(path.read_text()):
        yield module, bool(indent)
        yield from ((f"{module}.{name}", bool(indent)) for name in re.findall(r"\w+", names))


def _names() -> Counter[str]:
    return Counter(path.stem for path in _paths())


def _paths() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def _module(path: Path) -> str:
    return ".".join(part for part in path.relative_to(ROOT).with_suffix("").parts if part != "__init__")
