"""One mistake put into a pipeline without errors: a misspelt name, a value of another type, a syntax error."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from etl.config.model import OptionPath
from etl.config.nested_values import value_at
from etl.config.options.option_names import _MEANT


class Mistake(NamedTuple):
    """A kind of mistake, its path, and the file with it."""

    kind: str
    path: OptionPath
    text: str


def mistakes(root: dict[str, Any]) -> Iterator[Mistake]:
    """Every mistake of each kind at each key and value of a pipeline."""
    text = _dump(root)
    for path, value in _walk(root, ()):
        for kind, change in _CHANGES.items():
            for changed in change(root, path, value):
                yield Mistake(kind, path, _dump(changed))
    yield from _syntax_errors(text)


def _dump(root: Any) -> str:
    return yaml.dump(root, Dumper=yaml.CSafeDumper, sort_keys=False, width=1000)


def _walk(value: Any, path: OptionPath) -> Iterator[tuple[OptionPath, Any]]:
    if path:
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _walk(item, (*path, key))


def _is_option(path: OptionPath) -> bool:
    """Whether the last key of a path is an option of a component or of the file, and not a name of the user's."""
    owner = path[:-1]
    names_below = ("sources", "streams", "sinks", "tables", "fields", "add", "rename", "aggregates", "values", "headers")
    return isinstance(path[-1], str) and not (owner and owner[-1] in names_below) and path[-1] != "type"


def _copy(root: Any, path: OptionPath) -> tuple[Any, Any]:
    copied = copy.deepcopy(root)
    return copied, value_at(copied, path[:-1])


def _rename(root: Any, path: OptionPath, name: str) -> Iterator[Any]:
    copied, owner = _copy(root, path)
    if name in owner or name == path[-1]:
        return
    renamed = {name if key == path[-1] else key: value for key, value in owner.items()}
    owner.clear()
    owner.update(renamed)
    yield copied


def _replace(root: Any, path: OptionPath, value: Any) -> Any:
    copied, owner = _copy(root, path)
    owner[path[-1]] = value
    return copied


def _misspell(root: Any, path: OptionPath, value: Any) -> Iterator[Any]:
    if _is_option(path) and len(str(path[-1])) > 3:
        name = str(path[-1])
        for other in (name[:-2] + name[-1], name[0] + name[2] + name[1] + name[3:], name.replace("_", "-"), name.capitalize()):
            yield from _rename(root, path, other)


def _rename_as_elsewhere(root: Any, path: OptionPath, value: Any) -> Iterator[Any]:
    if _is_option(path):
        for other in _MEANT.get(str(path[-1]), "").split():
            yield from _rename(root, path, other)


def _rename_to_nothing(root: Any, path: OptionPath, value: Any) -> Iterator[Any]:
    if _is_option(path):
        yield from _rename(root, path, "qqq")


def _add_option(root: Any, path: OptionPath, value: Any) -> Iterator[Any]:
    if isinstance(value, dict) and "type" in value:
        for name, item in (
            ("qqq", 1),
            ("retries", 3),
            ("enabled", True),
            ("name", "x"),
            ("options", {"a": 1}),
            ("batch_size", 5),
        ):
            if name not in value:
                yield _replace(root, path, {**value, name: item})


def _remove_option(root: Any, path: OptionPath, value: Any) -> Iterator[Any]:
    if isinstance(path[-1], str):
        copied, owner = _copy(root, path)
        del owner[path[-1]]
        yield copied


def _misspell_type(root: Any, path: OptionPath, value: Any) -> Iterator[Any]:
    if path[-1] == "type" and isinstance(value, str):
        for other in (value[:-1], f"{value}s", value.capitalize(), "qqq"):
            yield _replace(root, path, other)


def _another_type(root: Any, path: OptionPath, value: Any) -> Iterator[Any]:
    if path[-1] == "type":
        return
    for other in ("qq q", 3, True, None, [], ["a", "b"], {}, {"value": "x"}, [{"a": "b"}], [value], {"value": value}):
        if type(other) is not type(value) or other in ("qq q", ["a", "b"]):
            yield _replace(root, path, other)
    if isinstance(value, (bool, int, float)):
        yield _replace(root, path, str(value).lower())


def _misspell_text(root: Any, path: OptionPath, value: Any) -> Iterator[Any]:
    if isinstance(value, str) and path[-1] != "type" and len(value) > 3:
        yield _replace(root, path, value[:-2] + value[-1])
        yield _replace(root, path, f"{value} q")


_CHANGES: Mapping[str, Callable[[Any, OptionPath, Any], Iterator[Any]]] = {
    "misspelt option": _misspell,
    "option of another tool": _rename_as_elsewhere,
    "unknown option": _rename_to_nothing,
    "further option": _add_option,
    "missing option": _remove_option,
    "misspelt type": _misspell_type,
    "value of another type": _another_type,
    "misspelt text": _misspell_text,
}


def _syntax_errors(text: str) -> Iterator[Mistake]:
    """Characters removed or added in lines of block style."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        for kind, other in _broken_lines(line):
            if other != line:
                yield Mistake(f"syntax: {kind}", (number + 1,), "\n".join([*lines[:number], other, *lines[number + 1 :]]) + "\n")


def _broken_lines(line: str) -> Iterator[tuple[str, str]]:
    indent = line[: len(line) - len(line.lstrip())]
    yield "no colon", line.replace(": ", " ", 1)
    yield "no blank after the colon", line.replace(": ", ":", 1)
    yield "no blank after the dash", line.replace("- ", "-", 1)
    yield "deeper", f" {line}"
    yield "less deep", line[1:] if indent else line
    yield "tab", f"\t{line.lstrip()}" if indent else line
    if line.endswith("'"):
        yield "open quote", line[:-1]
        yield "quote in quotes", f"{line[:-1]} 'a' b'"
    key, colon, value = line.partition(": ")
    if colon and value:
        yield "bracket", f"{key}: [{value}"
        yield "brace", f"{key}: {{{value}"
        yield "second colon", f"{key}: {value}: x"
        yield "begins with a percent sign", f"{key}: %{value}"
        yield "begins with an asterisk", f"{key}: *{value}"
        yield "open double quote", f'{key}: "{value}'
