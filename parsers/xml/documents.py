"""XML documents: texts → trees, safely; and the unused elements and attributes of a tree as JSON.

The reader is expat of the standard library, whose callbacks go straight into the standard library's tree builder, so no
Python code runs for an element. A document type is refused where it begins: without one there are only the five entities of
XML itself, none that expand and none in other files. (The package defusedxml does the same, with a tree
built in Python.) Depth and size are bounded by the caller's numbers; a tree takes up to about 40 bytes for each of its text's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

Used = set[int | tuple[int, str]]
"""The used parts of a tree: elements by identity, attributes by their element's identity and name."""

_NOTHING: Final = object()
"""An element without unused parts."""

Json = Any

_WRITE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class DocumentError(ValueError):
    """A text that is not a document, or one that is refused; the message is the reason."""


def read_document(text: str, keep_namespaces: bool, max_depth: int) -> Element:
    """The root of a document. Raises DocumentError."""
    builder = TreeBuilder()
    parser = expat.ParserCreate("utf-8")  # whatever the document says: the text was decoded by its source
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(text.lstrip("\ufeff \t\r\n"), True)
    except expat.ExpatError as error:
        raise DocumentError(f"is not XML: {error}") from None
    root: Element = builder.close()
    if text.count("</") >= max_depth and _deeper(root, max_depth):
        raise DocumentError(f"is nested deeper than {max_depth} elements")
    if not keep_namespaces:
        _without_prefixes(root)
    return root


def _refuse(name: str, *rest: object) -> NoReturn:
    raise DocumentError(f"has a document type ({name[:60]!r}), which is refused")


def _deeper(root: Element, max_depth: int) -> bool:
    level: Sequence[Element] = [root]
    for _ in range(max_depth):
        level = [child for element in level for child in element]
        if not level:
            return False
    return True


def _without_prefixes(root: Element) -> None:
    for element in root.iter():
        if ":" in element.tag:
            element.tag = element.tag.rpartition(":")[2]
        for name, _ in element.items():
            if ":" in name or name == "xmlns":
                _rename(element, name)


def _rename(element: Element, name: str) -> None:
    value = element.attrib.pop(name)
    prefix, _, local = name.rpartition(":")
    if name != "xmlns" and prefix != "xmlns":
        element.attrib.setdefault(local, value)


def content(element: Element) -> str | None:
    """The text inside, that of inner elements included, without white space around it; None when there is none."""
    text = "".join(element.itertext()) if len(element) else element.text
    return (text.strip() or None) if text else None


# ── The rest ──────────────────────────────────────────────────────────────────────────────────────


def rest_json(root: Element, used: Used) -> str | None:
    """The unused parts as JSON: ``{"root": {"@attribute": …, "child": …, "#text": …}}``; None when nothing is left.

    An element with nothing but text is that text, an empty one null, one that comes several times an array.
    """
    left = _left(root, used)
    return None if left is _NOTHING else _WRITE({root.tag: left})


def _left(element: Element, used: Used) -> Json:
    taken = id(element) in used
    if not len(element) and not element.keys():
        return _NOTHING if taken else (element.text or "").strip() or None
    left: dict[str, Json] = {f"@{name}": value for name, value in element.items() if not used or (id(element), name) not in used}
    if not taken:
        _add_children(left, element, used)
    text = None if taken else _own_text(element)
    if left:
        return left if text is None else left | {"#text": text}
    if text is not None:
        return text
    return _NOTHING


def _add_children(left: dict[str, Json], children: Iterable[Element], used: Used) -> None:
    several: set[str] = set()
    for child in children:
        value = _left(child, used)
        if value is _NOTHING:
            continue
        name = child.tag
        if name in several:
            left[name].append(value)
        elif name in left:
            left[name] = [left[name], value]
            several.add(name)
        else:
            left[name] = value


def _own_text(element: Element) -> str | None:
    if not len(element):
        return (element.text or "").strip() or None
    return "".join([element.text or "", *(child.tail or "" for child in element)]).strip() or None
