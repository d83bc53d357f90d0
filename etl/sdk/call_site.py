"""Where in a Python file, notebook or YAML file a part of a pipeline is written, for problems."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Protocol

from etl.api import EtlError
from etl.config.document.yaml_document import EntryLocation
from etl.config.model import OptionPath, YamlLocation
from etl.udf.loading import FUNCTION_MODULE

_PACKAGE = str(Path(__file__).parent)
"""Frames of this package are not the caller's."""


class Site(Protocol):
    """Where a part of a pipeline is written."""

    @property
    def file(self) -> str: ...

    def locate(self, path: OptionPath, key: bool = False) -> YamlLocation:
        """Line and column of an option inside the part, or of the nearest value around it; ``key``: of its name."""


@dataclass(frozen=True)
class CallSite:
    """A call of the builder. ``end`` is the line and column (from 0) at which its expression ends."""

    file: str
    line: int
    column: int
    end: tuple[int, int]
    positional: tuple[str, ...] = ()
    """The options that may be given by position."""

    def locate(self, path: OptionPath, key: bool = False) -> YamlLocation:
        """The location of an argument, found in the source text if there is one; else that of the call."""
        call = _calls("".join(linecache.getlines(self.file))).get(self.end)
        if call is None:
            return self.line, self.column
        node, whole = _argument(call, path, self.positional)
        if node is None:
            return self.line, self.column
        found = whole if key and whole is not None else node
        return found.lineno, found.col_offset + 1


@dataclass(frozen=True)
class FileSite:
    """A part of a YAML file or SQL script, at ``path``."""

    file: str
    locations: Mapping[OptionPath, EntryLocation]
    path: OptionPath = ()

    def locate(self, path: OptionPath, key: bool = False) -> YamlLocation:
        """The location of the longest prefix of the path that the file has."""
        whole = (*self.path, *path)
        while whole and whole not in self.locations:
            whole = whole[:-1]
        found = self.locations.get(whole, EntryLocation(None, (1, 1)))
        return found.key if key and found.key else found.value

    def inside(self, *path: str | int) -> FileSite:
        """The site of a part inside this one."""
        return FileSite(self.file, self.locations, (*self.path, *path))


def call_site(positional: Sequence[str] = ()) -> CallSite:
    """The call by the user of this package that runs now."""
    frame = _caller()
    lines = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, end_line, column, end_column = next(lines, (None,) * 4)
    line = line or frame.f_lineno
    begin = (column or 0) + 1 if line == end_line else 1
    return CallSite(frame.f_code.co_filename, line, begin, (end_line or line, end_column or 0), tuple(positional))


def refuse_while_loading() -> None:
    """Raise EtlError where a file that is only loaded for its functions tries or runs a pipeline, which would load it again."""
    frame = _caller()
    if str(frame.f_globals.get("__name__", "")).startswith(FUNCTION_MODULE):
        raise EtlError(
            f"{frame.f_code.co_filename}:{frame.f_lineno}: this file is loaded for its functions, and its last lines would run a "
            "pipeline again each time: put them under if __name__ == '__main__':"
        )


def _caller() -> FrameType:
    """The innermost frame outside of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    assert frame is not None
    return frame


@lru_cache(maxsize=8)
def _calls(source: str) -> Mapping[tuple[int, int], ast.Call]:
    """The calls of a source text by the line and column at which they end; none of a text that is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    # Outer nodes come first, and of two calls that end together the inner one is an argument, which the positions exclude
    found: dict[tuple[int, int], ast.Call] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.end_lineno is not None and node.end_col_offset is not None:
            found.setdefault((node.end_lineno, node.end_col_offset), node)
    return found


_Located = ast.expr | ast.keyword


def _argument(call: ast.Call, path: OptionPath, positional: Sequence[str]) -> tuple[_Located | None, _Located | None]:
    """The value of an option in a call, or the nearest one around it, and what names it."""
    node: _Located | None = None
    name: _Located | None = None
    for depth, key in enumerate(path):
        children = list(_children(call, positional)) if depth == 0 else list(_items(node))
        found = next(((named, value) for one, named, value in children if one == key), None)
        if found is None:
            return node, name
        name, node = found
    return node, name


def _children(call: ast.Call, positional: Sequence[str]) -> Iterator[tuple[str | int, _Located, ast.expr]]:
    yield from ((name, value, value) for name, value in zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg.removesuffix("_") if keyword.arg.endswith("_") else keyword.arg, keyword, keyword.value


def _items(node: _Located | None) -> Iterator[tuple[str | int, _Located, ast.expr]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                yield str(key.value), key, value
    elif isinstance(node, (ast.List, ast.Tuple)):
        yield from ((number, value, value) for number, value in enumerate(node.elts))
    elif isinstance(node, ast.Call):
        yield from ((keyword.arg, keyword, keyword.value) for keyword in node.keywords if keyword.arg is not None)
