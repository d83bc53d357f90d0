"""Files of Filebeat: YAML in which names with dots are paths, and ``${NAME:default}`` is a variable of the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.processor import as_list

MAX_BYTES = 4 << 20

_VARIABLE = re.compile(r"\$\{([A-Za-z_][\w.]*)(?::(\?)?([^}]*))?\}")


@dataclass
class FilebeatFiles:
    """What stands in a configuration and the files that it names."""

    root: dict[str, Any] = field(default_factory=dict)
    inputs: list[Mapping[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Globs of further files of inputs, of which none is there."""
    texts: list[str] = field(default_factory=list)
    _locations: dict[int, str] = field(default_factory=dict)

    def add(self, file: Path) -> None:
        """Read a file: a whole configuration, or a list of inputs. Raises NoCounterpartError with what is wrong and where."""
        value = self._read(file)
        if isinstance(value, list):
            self.inputs += _mappings(value)
            return
        _merge(self.root, value)
        filebeat = self.section("filebeat")
        self.inputs += _mappings(
            [*as_list(filebeat.pop("inputs", None) or []), *as_list(filebeat.pop("prospectors", None) or [])]
        )
        further = filebeat.pop("config", None)
        inputs = further.get("inputs") if isinstance(further, dict) else None
        if isinstance(inputs, dict) and inputs.get("enabled", True) is not False and inputs.get("path"):
            self._add_further(file.parent, str(inputs["path"]))

    def _add_further(self, folder: Path, path: str) -> None:
        pattern = path.replace("${path.config}", "").lstrip("/") if path.startswith("${path.config}") else path
        start = Path(pattern).anchor or folder
        try:
            found = sorted(Path(start).glob(str(Path(pattern).relative_to(Path(pattern).anchor))))
        except (ValueError, OSError):
            found = []
        self.missing += [] if found else [path]
        for file in found:
            self.add(file)

    def section(self, name: str) -> dict[str, Any]:
        """A mapping of the configuration; empty where it is missing."""
        value = self.root.get(name)
        return value if isinstance(value, dict) else {}

    def location(self, value: Any) -> str:
        """``file:line:column`` of a mapping."""
        return self._locations.get(id(value), "")

    def mentions(self, name: str) -> bool:
        """Whether a name stands anywhere in the files."""
        return any(name in text for text in self.texts)

    def _read(self, file: Path) -> Any:
        data = file.read_bytes()
        if len(data) > MAX_BYTES:
            raise NoCounterpartError(f"{file}:1:1: {len(data):,} bytes are more than a configuration may have: {MAX_BYTES:,}")
        try:
            text = data.decode("utf-8-sig")
            loader = yaml.SafeLoader(text)
            node = loader.get_single_node()
            value = self._value(loader, node, file) if node is not None else {}
        except UnicodeDecodeError as error:
            raise NoCounterpartError(f"{file}:1:1: byte {error.start} is not UTF-8") from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            at = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
            raise NoCounterpartError(f"{file}:{at}: {getattr(error, 'problem', None) or 'YAML that cannot be read'}") from None
        if not isinstance(value, (dict, list)):
            raise NoCounterpartError(f"{file}:1:1: a configuration of Filebeat is a mapping, or a list of inputs")
        self.texts.append(text)
        return value

    def _value(self, loader: yaml.SafeLoader, node: yaml.Node, file: Path) -> Any:
        """The value of a node, with names as paths; mappings have a location."""
        made: Any
        if isinstance(node, yaml.MappingNode):
            made = {}
            loader.flatten_mapping(node)
            for key, item in node.value:
                _put(made, str(loader.construct_object(key)), self._value(loader, item, file))
            self._locations[id(made)] = f"{file}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
        elif isinstance(node, yaml.SequenceNode):
            made = [self._value(loader, item, file) for item in node.value]
        else:
            made = loader.construct_object(node)
            made = variables(made) if isinstance(made, str) else made
        return made


def _mappings(values: list[Any]) -> list[Mapping[str, Any]]:
    return [one for one in values if isinstance(one, dict)]


def variables(text: str) -> str:
    """``${NAME:default}`` as ``${NAME:-default}``. Those of Filebeat's own folders stay as they are."""

    def replace(found: re.Match[str]) -> str:
        name, asks, rest = found.groups()
        if "." in name:
            return found[0]
        return f"${{{name}:?{rest}}}" if asks else f"${{{name}:-{rest}}}" if rest is not None else found[0]

    return _VARIABLE.sub(replace, text)


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    """Set ``a.b`` as a member of ``a``."""
    first, dot, rest = name.partition(".")
    if dot and first and rest and re.fullmatch(r"[\w@-]+", first):
        inner = values.get(first)
        if not isinstance(inner, dict):
            inner = values[first] = {}
        _put(inner, rest, value)
    elif isinstance(value, dict) and isinstance(values.get(name), dict):
        _merge(values[name], value)
    else:
        values[name] = value


def _merge(values: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(values.get(name), dict):
            _merge(values[name], value)
        else:
            values[name] = value


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings with their dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
