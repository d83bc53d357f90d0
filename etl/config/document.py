"""YAML text → plain values, with the place of every key and value in the text.

Scalars are read by the core schema of YAML 1.2: only ``true`` and ``false`` are booleans, ``no``, ``on`` and dates
stay text. Anchors, aliases and merge keys work, within a budget that stops documents that grow when expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from etl.config.model import OptionPath, YamlLocation
from etl.config.other_tools import other_tool
from etl.config.split_texts import joined_items, joined_pairs, with_comment

MAX_BYTES = 1 << 20
"""Largest pipeline file that is read."""
MAX_VALUES = 50_000
"""Most values of a document after its aliases are expanded."""
MAX_VERSIONS = 12
"""Documents that are looked at where keys stand more than once."""
MAX_DEPTH = 60
"""Deepest nesting."""

_INT = re.compile(r"[-+]?[0-9]+")
_RADIX = re.compile(r"0(?:o(?P<octal>[0-7]+)|x(?P<hex>[0-9a-fA-F]+))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_STANDARD_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_STANDARD_TAG}merge"
_MAX_DIGITS = 300

Node: TypeAlias = yaml.Node


@dataclass(frozen=True, slots=True)
class Scalar:
    """How a scalar is written: ``style`` is a quote, ``|``, ``>`` or empty; ``start`` and ``end`` count characters."""

    style: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class EntryLocation:
    """Where a key and its value stand. A list item has no key."""

    key: YamlLocation | None
    value: YamlLocation
    scalar: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Flaw:
    """A problem of the text itself."""

    location: YamlLocation
    code: str
    message: str
    path: OptionPath = ()
    hint: str | None = None


@dataclass
class Document:
    """One YAML document: its value and the places of all paths inside it."""

    text: str
    value: Any = None
    locations: dict[OptionPath, EntryLocation] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)
    repeated: dict[YamlLocation, int] = field(default_factory=dict)
    """Where keys that stand more than once stand first → how often."""
    blanked: list[OptionPath] = field(default_factory=list)
    """Values that are no YAML, with an empty mapping in their place."""
    left_out: list[tuple[YamlLocation, YamlLocation]] = field(default_factory=list)
    """Where values begin and end of which another of the same key was taken."""


Choices: TypeAlias = Mapping[YamlLocation, int]
"""Where a key that stands more than once stands first → which of its values is taken, the first by default."""


def read(data: bytes, choices: Choices | None = None) -> Document:
    """Bytes of a file → document. What is wrong is in its ``flaws``; the value is then what could be read."""
    if len(data) > MAX_BYTES:
        return _unreadable(
            Flaw((1, 1), "file-too-large", f"{len(data)} bytes are more than a pipeline file may have: {MAX_BYTES}")
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        return _unreadable(Flaw(location_of(before, len(before)), "not-utf8", f"byte 0x{data[error.start]:02x} is not UTF-8"))
    return parse(text, choices)


def versions(data: bytes) -> Iterator[Document]:
    """The document, and where keys stand more than once the documents with others of their values."""
    waiting: list[dict[YamlLocation, int]] = [{}]
    for number in range(MAX_VERSIONS):
        if number == len(waiting):
            return
        document = read(data, waiting[number])
        yield document
        for location, count in document.repeated.items():
            others = [waiting[number] | {location: which} for which in range(1, count) if location not in waiting[number]]
            waiting += [choices for choices in others if choices not in waiting]


def parse(text: str, choices: Choices | None = None) -> Document:
    """Text → document."""
    document = Document(text)
    try:
        _check_depth(text)
        loader = yaml.CSafeLoader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        return _around(_syntax_flaw(error, text), document, choices)
    except _TooBigError as error:
        document.flaws.append(Flaw((1, 1), "file-too-large", str(error)))
        return document
    if root is not None:
        reader = _Reader(document, choices or {})
        try:
            document.value = reader.value(root, (), None)
        except _TooBigError as error:
            document.flaws.append(Flaw((1, 1), "file-too-large", str(error)))
            document.value = None
    return document


def _around(flaw: Flaw, document: Document, choices: Choices | None) -> Document:
    """The document without the parts that are no YAML, where they can be told from the rest; else only the first mistake."""
    from etl.config.blanked import MOST, blanked, tells_the_rest

    only = Document(document.text, flaws=[flaw])
    text, flaws, emptied = document.text, [flaw], []
    while flaws[-1].code == "yaml-syntax" and len(flaws) <= MOST and (left := blanked(text, flaws[-1].location[0])):
        text, location, last = left
        emptied.append(location)
        found = _parsed(text)
        if isinstance(found, Flaw):
            if found.location[0] <= last:
                break
            flaws.append(found)
            continue
        rest = parse(text, choices)
        rest.text = document.text
        rest.blanked = [path for path, at in rest.locations.items() if at.value in emptied]
        whole = len(rest.blanked) == len(emptied) and all(map(tells_the_rest, rest.blanked)) and isinstance(rest.value, dict)
        rest.flaws[:0] = flaws
        return rest if whole else only
    return only


def _parsed(text: str) -> Flaw | None:
    """What the parser says against a text."""
    loader = yaml.CSafeLoader(text)
    try:
        loader.get_single_node()
    except yaml.YAMLError as error:
        return _syntax_flaw(error, text)
    finally:
        loader.dispose()
    return None


def scalar_value(text: str) -> Any:
    """An unquoted scalar → None, bool, int, float or the text itself, by YAML 1.2's core schema."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) > _MAX_DIGITS:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if found := _RADIX.fullmatch(text):
        return int(found["octal"], 8) if found["octal"] else int(found["hex"], 16)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if number - number == 0 else text
    return text


def location_of(text: str, index: int) -> YamlLocation:
    """Character index → line and column."""
    before = text[:index]
    return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1


class _TooBigError(Exception):
    pass


def _check_depth(text: str) -> None:
    """PyYAML's composer recurses in C and crashes the process on deep nesting: look before it is called."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _TooBigError(f"nested deeper than {MAX_DEPTH}")


@dataclass
class _Reader:
    """Turns nodes into values and notes their places."""

    document: Document
    choices: Choices
    values: int = 0

    def value(self, node: Node, path: OptionPath, key: Node | None) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            raise _TooBigError(f"more than {MAX_VALUES} values once aliases are expanded")
        if len(path) > MAX_DEPTH:
            raise _TooBigError(f"nested deeper than {MAX_DEPTH}")
        self._note(node, path, key)
        if not node.tag.startswith(_STANDARD_TAG):
            hint = "quote a text that begins with '!'" if isinstance(node, yaml.ScalarNode) else "remove it"
            self._flaw(node, "unknown-tag", f"the tag {node.tag!r} has no meaning here", path, hint)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [
                self._item(item, was_cut, (*path, at))
                for at, (item, was_cut) in enumerate(joined_items(node, self.document.text))
            ]
        if (whole := with_comment(node, self.document.text)) is not None:
            message = "a comment begins at ' #' in this text unless it stands in quotes"
            self._flaw(node, "yaml-syntax", message, path, f"write {quoted(whole)}")
            return whole
        return _scalar(node)

    def _item(self, node: Node, was_cut: bool, path: OptionPath) -> Any:
        if was_cut:
            self._flaw_of_cut(node, path)
        return self.value(node, path, None)

    def _flaw_of_cut(self, node: Node, path: OptionPath) -> None:
        self._flaw(
            node, "yaml-syntax", "a comma ends a text here unless it stands in quotes", path, f"write {quoted(node.value)}"
        )

    def _mapping(self, node: Node, path: OptionPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        given: dict[str, list[tuple[Node, Node]]] = {}
        for (key, value), was_cut in joined_pairs(node, self.document.text):
            if key.tag == _MERGE:
                continue
            if was_cut:
                self._flaw_of_cut(value, (*path, key.value))
            if isinstance(key, yaml.ScalarNode):
                given.setdefault(key.value, []).append((key, value))
            else:
                self._flaw(key, "bad-key", "a key must be a plain word, not a list or mapping", path)
        for name, entries in given.items():
            which = self.choices.get(_start(entries[0][0]), 0)
            key, value = entries[which]
            found[name] = self.value(value, (*path, name), key)
            if len(entries) > 1:
                self._repeated(name, entries, which, path)
        for key, value in self._merged(node, path, 0):
            if isinstance(key, yaml.ScalarNode) and key.value not in found:
                found[key.value] = self.value(value, (*path, key.value), key)
        return found

    def _repeated(self, name: str, entries: list[tuple[Node, Node]], which: int, path: OptionPath) -> None:
        first = _start(entries[0][0])
        self.document.repeated[first] = len(entries)
        others = [value for number, (_, value) in enumerate(entries) if number != which]
        self.document.left_out += [(_start(one), (one.end_mark.line + 1, one.end_mark.column + 1)) for one in others]
        for key, _ in entries[1:]:
            message = f"{name!r} is given twice, first in line {first[0]}"
            self._flaw(key, "duplicate-key", message, (*path, name), "remove one of them")

    def _entries(self, node: Node, path: OptionPath) -> list[tuple[Node, Node]]:
        return [(key, value) for key, value in node.value if key.tag != _MERGE]

    def _merged(self, node: Node, path: OptionPath, depth: int) -> list[tuple[Node, Node]]:
        """Entries behind ``<<``, the first of a key counting."""
        entries: list[tuple[Node, Node]] = []
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                self.values += 1
                if self.values > MAX_VALUES or len(entries) > MAX_VALUES or depth > MAX_DEPTH:
                    raise _TooBigError(f"more than {MAX_VALUES} values once aliases are expanded")
                if isinstance(part, yaml.MappingNode):
                    entries += [*self._entries(part, path), *self._merged(part, path, depth + 1)]
                else:
                    self._flaw(key, "bad-key", "'<<' takes a mapping or a list of mappings", path)
        return entries

    def _note(self, node: Node, path: OptionPath, key: Node | None) -> None:
        start = node.start_mark
        scalar = None
        if isinstance(node, yaml.ScalarNode):
            scalar = Scalar(node.style or "", start.index, node.end_mark.index, node.value)
        location = (start.line + 1, start.column + 1)
        key_location = (key.start_mark.line + 1, key.start_mark.column + 1) if key is not None else None
        if scalar is not None and scalar.start == scalar.end and key_location is not None:
            location = key_location  # an empty value has no place of its own
        self.document.locations[path] = EntryLocation(key_location, location, scalar)

    def _flaw(self, node: Node, code: str, message: str, path: OptionPath, hint: str | None = None) -> None:
        location = (node.start_mark.line + 1, node.start_mark.column + 1)
        self.document.flaws.append(Flaw(location, code, message, path, hint))


def _start(node: Node) -> YamlLocation:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _scalar(node: Node) -> Any:
    plain = not getattr(node, "style", None)
    explicit_text = node.tag == f"{_STANDARD_TAG}str" and plain and _INT.fullmatch(node.value)
    return scalar_value(node.value) if plain and not explicit_text else node.value


def _unreadable(flaw: Flaw) -> Document:
    return Document("", flaws=[flaw])


def _syntax_flaw(error: yaml.YAMLError, text: str) -> Flaw:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        at = getattr(error, "position", 0)
        reason = getattr(error, "reason", str(error))
        return Flaw(location_of(text, at), "yaml-syntax", f"{reason}: {text[at : at + 1]!r}")
    if hint := other_tool(text):
        return Flaw((1, 1), "not-a-pipeline", "the file is no YAML", hint=hint)
    if isinstance(error, yaml.composer.ComposerError) and "single document" in str(error.context):
        return Flaw(
            (mark.line + 1, mark.column + 1), "several-documents", "a pipeline file is one YAML document", hint="split it"
        )
    from etl.config.yaml_errors import explained  # for files with an error only

    assert isinstance(error, yaml.MarkedYAMLError)
    found = explained(error, text)
    return Flaw((found.line, found.column), "yaml-syntax", found.message, hint=found.hint)


def quoted(text: str) -> str:
    """The text in quotes, as YAML reads it back."""
    if "'" in text and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return "'" + text.replace("'", "''") + "'"


def plain(value: object) -> Mapping[str, Any]:
    """The value when it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}
