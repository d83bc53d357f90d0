"""YAML nodes → values and their locations, within a budget that stops documents that grow when aliases are expanded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from etl.config.document.scalars import STANDARD_TAG, node_value, quote_text
from etl.config.document.split_texts import joined_items, joined_pairs, with_comment
from etl.config.document.yaml_document import Choices, Document, EntryLocation, Scalar, YamlProblem
from etl.config.model import OptionPath, YamlLocation

MAX_VALUES = 50_000
"""Maximum number of values of a document after its aliases are expanded."""
MAX_DEPTH = 60
"""Deepest nesting."""

_MERGE = f"{STANDARD_TAG}merge"

Node = yaml.Node
Entry = tuple[Node, Node]


class TooBigError(Exception):
    """The document has too many values or is nested too deep."""


@dataclass
class NodeReader:
    """Turns nodes into values; adds their locations and flaws to the document."""

    document: Document
    choices: Choices
    values: int = 0

    def value(self, node: Node, path: OptionPath, key: Node | None) -> Any:
        """The value of a node. Raises TooBigError."""
        self._count(path)
        self._add_location(node, path, key)
        if not node.tag.startswith(STANDARD_TAG):
            hint = "quote a text that begins with '!'" if isinstance(node, yaml.ScalarNode) else "remove it"
            self._add_flaw(node, "unknown-tag", f"the tag {node.tag!r} has no meaning here", path, hint)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            items = joined_items(node, self.document.text)
            return [self._item(item, was_split, (*path, at)) for at, (item, was_split) in enumerate(items)]
        if (whole := with_comment(node, self.document.text)) is not None:
            message = "a comment begins at ' #' in this text unless it stands in quotes"
            self._add_flaw(node, "yaml-syntax", message, path, f"write {quote_text(whole)}")
            return whole
        return node_value(node)

    def _count(self, path: OptionPath) -> None:
        self.values += 1
        if self.values > MAX_VALUES:
            raise TooBigError(f"more than {MAX_VALUES} values once aliases are expanded")
        if len(path) > MAX_DEPTH:
            raise TooBigError(f"nested deeper than {MAX_DEPTH}")

    def _item(self, node: Node, was_split: bool, path: OptionPath) -> Any:
        if was_split:
            self._add_flaw_of_split(node, path)
        return self.value(node, path, None)

    def _mapping(self, node: Node, path: OptionPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, entries in self._entries_by_name(node, path).items():
            which = self.choices.get(_start(entries[0][0]), 0)
            key, value = entries[which]
            found[name] = self.value(value, (*path, name), key)
            if len(entries) > 1:
                self._add_repeated(name, entries, which, path)
        for key, value in self._merge(node, path, 0):
            if isinstance(key, yaml.ScalarNode) and key.value not in found:
                found[key.value] = self.value(value, (*path, key.value), key)
        return found

    def _entries_by_name(self, node: Node, path: OptionPath) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for (key, value), was_split in joined_pairs(node, self.document.text):
            if key.tag == _MERGE:
                continue
            if was_split:
                self._add_flaw_of_split(value, (*path, key.value))
            if isinstance(key, yaml.ScalarNode):
                found.setdefault(key.value, []).append((key, value))
            else:
                self._add_flaw(key, "bad-key", "a key must be a plain word, not a list or mapping", path)
        return found

    def _merge(self, node: Node, path: OptionPath, depth: int) -> list[Entry]:
        """Entries after ``<<``, the first of a key counting."""
        entries: list[Entry] = []
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                self.values += 1
                if self.values > MAX_VALUES or len(entries) > MAX_VALUES or depth > MAX_DEPTH:
                    raise TooBigError(f"more than {MAX_VALUES} values once aliases are expanded")
                if isinstance(part, yaml.MappingNode):
                    own = [(name, item) for name, item in part.value if name.tag != _MERGE]
                    entries += [*own, *self._merge(part, path, depth + 1)]
                else:
                    self._add_flaw(key, "bad-key", "'<<' takes a mapping or a list of mappings", path)
        return entries

    def _add_repeated(self, name: str, entries: list[Entry], which: int, path: OptionPath) -> None:
        first = _start(entries[0][0])
        self.document.repeated[first] = len(entries)
        others = [value for number, (_, value) in enumerate(entries) if number != which]
        self.document.left_out += [(_start(one), _end(one)) for one in others]
        for key, _ in entries[1:]:
            message = f"{name!r} is given twice, first in line {first[0]}"
            self._add_flaw(key, "duplicate-key", message, (*path, name), "remove one of them")

    def _add_location(self, node: Node, path: OptionPath, key: Node | None) -> None:
        start, scalar = node.start_mark, None
        if isinstance(node, yaml.ScalarNode):
            scalar = Scalar(node.style or "", start.index, node.end_mark.index, node.value)
        location, key_location = _start(node), _start(key) if key is not None else None
        if scalar is not None and scalar.start == scalar.end and key_location is not None:
            location = key_location  # an empty value has no location of its own
        self.document.locations[path] = EntryLocation(key_location, location, scalar)

    def _add_flaw_of_split(self, node: Node, path: OptionPath) -> None:
        message = "a comma ends a text here unless it stands in quotes"
        self._add_flaw(node, "yaml-syntax", message, path, f"write {quote_text(node.value)}")

    def _add_flaw(self, node: Node, code: str, message: str, path: OptionPath, hint: str | None = None) -> None:
        self.document.flaws.append(YamlProblem(_start(node), code, message, path, hint))


def _start(node: Node) -> YamlLocation:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _end(node: Node) -> YamlLocation:
    return node.end_mark.line + 1, node.end_mark.column + 1
