"""Paths into XML documents: a small part of XPath 1.0, compiled once.

``System/EventID`` leads from the root element to a child's child, ``/Event/System`` names the root as well, ``//Data`` is
any element inside, ``*`` any name, ``.`` the root. In brackets is an index from 1 (``Data[2]``) or a condition
(``Data[@Name='IpAddress']``, ``item[key='x']``). ``@Name`` at the end is an attribute, ``//@Name`` one of any
element inside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias
from xml.etree.ElementTree import Element

from parsers.common.path_error import PathError
from parsers.xml.documents import Used, content

ElementFilter: TypeAlias = Callable[[list[Element], Used], list[Element]]
"""Elements with one parent → those that meet a condition. Adds the attributes that it compares to the used ones."""

_NAME = r"[^\W\d][\w.\-]*(?::[^\W\d][\w.\-]*)?"
_STEP = re.compile(rf"(?P<slashes>//?|)(?:(?P<name>{_NAME}|\*|\.)|@(?P<attribute>{_NAME}))")
_CONDITION = re.compile(
    rf"""\[\s*(?:(?P<index>[1-9]\d{{0,8}})|(?P<at>@?)(?P<key>{_NAME})\s*=\s*(?P<q>['"])(?P<value>.*?)(?P=q))\s*\]"""
)


@dataclass(frozen=True)
class Step:
    """Children, or all elements inside (``deep``), of one name that meet the conditions."""

    name: str
    deep: bool
    conditions: tuple[ElementFilter, ...]

    def take(self, parents: Iterable[Element], used: Used) -> list[Element]:
        """The elements that this step leads to, each once."""
        found: list[Element] = []
        for below in [_inside(parents)] if self.deep else parents:
            chosen = [one for one in below if self.name in (one.tag, "*")]
            for condition in self.conditions:
                chosen = condition(chosen, used)
            found += chosen
        return found


def _inside(parents: Iterable[Element]) -> Iterator[Element]:
    """All elements inside these, each once, also where one parent is inside another."""
    visited_ids: set[int] = set()
    for parent in parents:
        if id(parent) in visited_ids:
            continue
        inside = parent.iter()
        next(inside)
        for one in inside:
            if id(one) not in visited_ids:
                visited_ids.add(id(one))
                yield one


@dataclass(frozen=True)
class Path:
    """From the root element, whose name may be given, by steps to elements or an attribute of them."""

    root: str | None
    steps: tuple[Step, ...]
    attribute: str | None

    def values(self, root: Element, used: Used, first: bool) -> list[str | None]:
        """The texts that it leads to, in the order of the document. Adds their elements and attributes to the used ones."""
        if self.root is not None and self.root not in (root.tag, "*"):
            return []
        elements, conditions = [root], Used()
        for step in self.steps:
            elements = step.take(elements, conditions)
        if self.attribute is not None:
            elements = [one for one in elements if one.get(self.attribute) is not None]
        elements = elements[:1] if first else elements
        marks = {id(one) for one in elements}
        used.update(mark for mark in conditions if isinstance(mark, tuple) and mark[0] in marks)
        if self.attribute is None:
            used.update(marks)
            return [content(one) for one in elements]
        used.update((id(one), self.attribute) for one in elements)
        return [one.get(self.attribute) for one in elements]


def parse_path(text: str) -> Path:
    """The text of a path → Path. Raises PathError that says what is accepted."""
    root: str | None = None
    attribute: str | None = None
    steps: list[Step] = []
    for at, found, conditions in _parts(text):
        slashes, name = found["slashes"], found["name"]
        if attribute is not None:
            raise PathError("an attribute is the end of a path", at)
        if at and not slashes:
            raise PathError(f"expected '/' before {text[at:][:20]!r}", at)
        if found["attribute"] is not None:
            if conditions:
                raise PathError("an attribute takes no condition", at)
            attribute = found["attribute"]
            steps += [Step("*", True, ())] if slashes == "//" else []
        elif name == ".":
            if at or slashes or conditions or text.startswith("./"):
                raise PathError("'.' stands alone: a path without it begins at the root, too", at)
        elif slashes == "/" and not at:
            root = name
            if conditions:
                raise PathError("there is one root: it takes no condition", at)
        else:
            steps.append(Step(name, slashes == "//", conditions))
    return Path(root, tuple(steps), attribute)


def _parts(text: str) -> Iterator[tuple[int, re.Match[str], tuple[ElementFilter, ...]]]:
    at = 0
    while at < len(text) or not text:
        found = _STEP.match(text, at)
        if not found:
            raise PathError(f"expected a name, '*' or '@name', found {text[at:][:20]!r}", at)
        end, conditions = found.end(), []
        while condition := _CONDITION.match(text, end):
            conditions.append(_element_filter(condition))
            end = condition.end()
        if text[end : end + 1] not in ("", "/", "@"):
            raise PathError(f"{text[end:][:20]!r}: a condition is [2], [@name='value'] or [name='value']", end)
        yield at, found, tuple(conditions)
        at = end


def _element_filter(condition: re.Match[str]) -> ElementFilter:
    index, key, value = condition["index"], condition["key"], condition["value"]
    if index is not None:
        return lambda elements, used: elements[int(index) - 1 : int(index)]
    if condition["at"]:
        return lambda elements, used: _with_attribute(elements, key, value, used)
    return lambda elements, used: [one for one in elements if any(child.tag == key and content(child) == value for child in one)]


def _with_attribute(elements: list[Element], name: str, value: str, used: Used) -> list[Element]:
    chosen = [one for one in elements if one.get(name) == value]
    used.update((id(one), name) for one in chosen)
    return chosen
