"""YAML text → document. Anchors, aliases and merge keys work; what is wrong with the text is in the document's flaws."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from etl.config.document.node_reader import MAX_DEPTH, NodeReader, TooBigError
from etl.config.document.other_tools import other_tool
from etl.config.document.text_locations import location_of
from etl.config.document.yaml_document import Choices, Document, YamlProblem
from etl.config.model import YamlLocation

MAX_BYTES = 1 << 20
"""Largest pipeline file."""
MAX_VERSIONS = 12
"""Maximum number of documents that are read of a file in which keys are repeated."""


def read(data: bytes, choices: Choices | None = None) -> Document:
    """Bytes of a file → document. Its ``value`` is what could be read."""
    text = decode(data)
    return Document("", flaws=[text]) if isinstance(text, YamlProblem) else parse(text, choices)


def decode(data: bytes) -> str | YamlProblem:
    """The text of a file, or what is wrong with its bytes."""
    if len(data) > MAX_BYTES:
        return YamlProblem((1, 1), "file-too-large", f"{len(data)} bytes are more than a pipeline file may have: {MAX_BYTES}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        found = f"byte 0x{data[error.start]:02x} is not UTF-8"
        return YamlProblem(location_of(before, len(before)), "not-utf8", found, hint="save the file as UTF-8")


def read_versions(data: bytes) -> Iterator[Document]:
    """The document; where keys are repeated, also the documents with their other values."""
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
    """Text → document. A text with a syntax error is read without the part that has it, where the rest does not depend on it."""
    try:
        root = _compose(text)
    except yaml.YAMLError as error:
        return _parse_without_errors(text, _syntax_flaw(error, text), choices)
    except TooBigError as error:
        return Document(text, flaws=[YamlProblem((1, 1), "file-too-large", str(error))])
    return _document(text, root, choices)


def _document(text: str, root: yaml.Node | None, choices: Choices | None) -> Document:
    document = Document(text)
    if root is not None:
        try:
            document.value = NodeReader(document, choices or {}).value(root, (), None)
        except TooBigError as error:
            document.flaws.append(YamlProblem((1, 1), "file-too-large", str(error)))
    return document


def _compose(text: str) -> yaml.Node | None:
    """The root node. Raises YAMLError and TooBigError."""
    _check_depth(text)
    loader = yaml.CSafeLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _check_depth(text: str) -> None:
    """Raise TooBigError for deep nesting, before PyYAML's composer recurses in C and crashes the process."""
    depth, too_deep = 0, TooBigError(f"nested deeper than {MAX_DEPTH}")
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise too_deep
    except yaml.MarkedYAMLError as error:
        if "nesting depth" in str(error.problem):  # of libyaml 0.2.6, which reads ahead and stops at a depth of 1,000
            raise too_deep from error
        raise


def _parse_without_errors(text: str, flaw: YamlProblem, choices: Choices | None) -> Document:
    """The document without the parts that are not YAML; only the first flaw where they cannot be separated from the rest."""
    from etl.config.document.recovery import MAX_ERRORS, leaves_rest_checkable, replace_broken_part

    flaws, locations, hiding, rest = [flaw], list[YamlLocation](), list[YamlLocation](), text
    while flaws[-1].code == "yaml-syntax" and len(flaws) <= MAX_ERRORS:
        recovered = replace_broken_part(rest, flaws[-1].location, lambda other: _find_flaw(other))
        if recovered is None:
            break
        rest = recovered.text
        locations.append(recovered.location)
        hiding += [recovered.location] if recovered.hides_others else []
        if recovered.next_flaw is not None:
            flaws.append(recovered.next_flaw)
            continue
        document = parse(rest, choices)
        document.text = text
        document.replaced_values = [path for path, at in document.locations.items() if at.value in locations]
        document.flaws[:0] = flaws
        hidden = [path for path in document.replaced_values if document.locations[path].value in hiding]
        document.incomplete = {path[:length] for path in hidden for length in range(len(path))}
        is_whole = len(document.replaced_values) == len(locations) and isinstance(document.value, dict)
        is_whole = is_whole and all(len(path) > 1 for path in hidden)
        if is_whole and all(map(leaves_rest_checkable, document.replaced_values)):
            return document
        break
    return Document(text, flaws=[flaw])


def _find_flaw(text: str) -> YamlProblem | None:
    """The syntax error of a text, if any."""
    try:
        _compose(text)
    except yaml.YAMLError as error:
        return _syntax_flaw(error, text)
    except TooBigError as error:
        return YamlProblem((1, 1), "file-too-large", str(error))
    return None


def _syntax_flaw(error: yaml.YAMLError, text: str) -> YamlProblem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        at = getattr(error, "position", 0)
        reason = getattr(error, "reason", str(error))
        return YamlProblem(location_of(text, at), "yaml-syntax", f"{reason}: {text[at : at + 1]!r}")
    if hint := other_tool(text):
        return YamlProblem((1, 1), "not-a-pipeline", "the file is not YAML", hint=hint)
    if isinstance(error, yaml.composer.ComposerError) and "single document" in str(error.context):
        location = mark.line + 1, mark.column + 1
        return YamlProblem(location, "several-documents", "a pipeline file is one YAML document", hint="split it")
    from etl.config.document.syntax_errors import explain  # for files with an error only

    assert isinstance(error, yaml.MarkedYAMLError)
    found = explain(error, text)
    return YamlProblem((found.line, found.column), "yaml-syntax", found.message, hint=found.hint)
