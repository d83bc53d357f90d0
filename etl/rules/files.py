"""Files of rules: which there are, when they change, and the YAML documents in them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from etl.api import FileSearch
from etl.rules.rule import RuleProblem

SUFFIXES = (".yml", ".yaml")
LARGEST_BYTES = 16 << 20
"""Size of the largest file of rules; a larger one is a problem."""

FileStates = tuple[tuple[str, int, int], ...]
"""Path, modification time in nanoseconds and size of each file; of each text its name, a part of its hash, and its size."""

NO_RULE = "there is no rule in it"
MAX_ALIASED_VALUES = 1_000_000
"""Maximum number of values of a document with aliases, each counted as often as aliases repeat it."""

_TOO_LARGE = f"there are more than {LARGEST_BYTES >> 20} MiB of it"


@dataclass(frozen=True)
class Document:
    """One document of a file of rules."""

    file: str
    line: int
    data: Mapping[str, Any]


def find_rule_files(patterns: Iterable[str]) -> list[str]:
    """The files that match patterns (``rules/**/*.yml``), lie in folders, or are named; in order, each once."""
    found: dict[str, None] = {}
    for pattern in patterns:
        glob_pattern = os.path.join(glob.escape(pattern), "**") if os.path.isdir(pattern) else pattern
        matching = FileSearch(glob_pattern).paths()
        found.update(dict.fromkeys(path for path in matching if os.path.isfile(path) and path.endswith(SUFFIXES)))
    return list(found)


def file_states(patterns: Sequence[str]) -> FileStates:
    """A value that differs after a file was changed, added or removed."""
    states = []
    for path in find_rule_files(patterns):
        try:
            stat = os.stat(path)
        except OSError:  # removed since the folder was listed
            continue
        states.append((path, stat.st_mtime_ns, stat.st_size))
    return tuple(states)


def read_documents(path: str) -> tuple[list[Document], list[RuleProblem]]:
    """The documents of a file, and what is wrong with the file."""
    try:
        if os.path.getsize(path) > LARGEST_BYTES:
            raise ValueError(_TOO_LARGE)
        with open(path, encoding="utf-8") as file:
            return parse_documents(path, file.read())
    except (OSError, ValueError) as error:
        return [], [RuleProblem(path, 1, str(error))]


def parse_documents(name: str, text: str) -> tuple[list[Document], list[RuleProblem]]:
    """The documents of a text, and what is wrong with it; ``name`` is the file of its documents and problems."""
    problems: list[RuleProblem] = []
    try:
        if len(text) > LARGEST_BYTES:
            raise ValueError(_TOO_LARGE)
        return list(_parse(name, text, problems)), problems
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.append(RuleProblem(name, line, f"no YAML: {error.problem or error.context}"))
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        problems.append(RuleProblem(name, 1, str(error) or type(error).__name__))
    return [], problems


def _parse(path: str, text: str, problems: list[RuleProblem]) -> Iterator[Document]:
    for node, item in nodes_with_values(text):
        line = node.start_mark.line + 1
        if isinstance(item, dict):
            yield Document(path, line, item)
        elif item is not None:
            problems.append(RuleProblem(path, line, f"a rule is a mapping, and this is {str(item)[:40]!r}"))


def nodes_with_values(text: str) -> Iterator[tuple[yaml.Node, Any]]:
    """The node and the value of each document; of a document that is a list, of each item. Raises yaml.YAMLError, ValueError."""
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            if "&" in text:  # else there are no anchors, and values are no larger than the text
                _check_aliases(node)
            nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
            data = loader.construct_document(node)
            yield from zip(nodes, data if isinstance(data, list) else [data], strict=True)
    finally:
        loader.dispose()


def _check_aliases(document: yaml.Node) -> None:
    """Raise ValueError if a value contains itself by an alias, or aliases make a document larger than anybody writes."""
    sizes: dict[int, int | None] = {}
    """Nodes that have been counted; None for those around the one that is being counted."""

    def count(node: yaml.Node) -> int:
        key = id(node)
        if key not in sizes:
            sizes[key] = None
            parts = node.value if isinstance(node, yaml.CollectionNode) else ()
            inside = (one for part in parts for one in (part if isinstance(part, tuple) else (part,)))
            sizes[key] = 1 + sum(map(count, inside))
        found = sizes[key]
        if found is None:
            raise ValueError(f"line {node.start_mark.line + 1}: a value contains itself by an alias")
        return found

    if count(document) > MAX_ALIASED_VALUES:
        raise ValueError(f"aliases make more than {MAX_ALIASED_VALUES:,} values of it")
