"""Files of ingest pipelines: YAML or JSON, one pipeline a file or many by name, as ``GET _ingest/pipeline`` gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from etl.migration.draft import NoCounterpartError

MAX_BYTES = 4 << 20

_CONTROL = re.compile(r"\{<\s*(?:if|else|end|range|with)\b[^>\n]*>\}")
"""Control structures of Beats' templates; what is between them stays."""

_KNOWN = "an ingest pipeline of Elasticsearch or OpenSearch has the key 'processors'; other configurations are not read yet"

_SUFFIXES = (".yml", ".yaml", ".json")


@dataclass
class IngestFiles:
    """Pipelines by name, with the locations of their processors in their files."""

    pipelines: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    main: str = ""
    _nodes: dict[str, tuple[Path, yaml.Node]] = field(default_factory=dict)

    def locate(self, pipeline: str, path: Sequence[str | int]) -> str:
        """``file:line:column`` of a value."""
        file, node = self._nodes[pipeline]
        for key in path:
            found = _child(node, key)
            if found is None:
                break
            node = found
        return f"{file}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"

    def add(self, file: Path) -> None:
        """Read a file. Raises NoCounterpartError with the file, line and column of what is wrong."""
        node, value = _read(file)
        if not isinstance(value, Mapping):
            raise NoCounterpartError(f"{file}:1:1: {_KNOWN}")
        if "processors" in value:
            self._put(file.stem, file, node, value)
            return
        found = {name: one for name, one in value.items() if isinstance(one, Mapping) and "processors" in one}
        if not found:
            raise NoCounterpartError(f"{file}:1:1: {_KNOWN}")
        for name, one in found.items():
            self._put(str(name), file, _child(node, name) or node, one)

    def _put(self, name: str, file: Path, node: yaml.Node, value: Mapping[str, Any]) -> None:
        if not isinstance(value["processors"], list):
            raise NoCounterpartError(f"{file}:{node.start_mark.line + 1}:1: 'processors' is a list")
        self.pipelines[name] = value
        self._nodes[name] = (file, node)
        self.main = self.main or name

    def add_called(self) -> None:
        """Read the pipelines that others call, from files of their names beside them."""
        from etl.migration.ingest.pipeline import called_names

        waiting = list(self.pipelines)
        while waiting:
            folder = self._nodes[name := waiting.pop()][0].parent
            for called in called_names(self.pipelines[name]):
                file = next((one for suffix in _SUFFIXES if (one := folder / f"{called}{suffix}").is_file()), None)
                if called not in self.pipelines and file is not None and re.fullmatch(r"[\w.-]+", called):
                    self.add(file)
                    waiting.append(called)


def _read(file: Path) -> tuple[yaml.Node, Any]:
    data = file.read_bytes()
    if len(data) > MAX_BYTES:
        raise NoCounterpartError(f"{file}:1:1: {len(data):,} bytes are more than a file of pipelines may have: {MAX_BYTES:,}")
    try:
        text = _CONTROL.sub(lambda found: " " * len(found[0]), data.decode("utf-8-sig"))
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        value = loader.construct_document(node) if node is not None else None
    except UnicodeDecodeError as error:
        raise NoCounterpartError(f"{file}:1:1: byte {error.start} is not UTF-8") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        at = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
        raise NoCounterpartError(f"{file}:{at}: {getattr(error, 'problem', None) or 'YAML that cannot be read'}") from None
    return node or yaml.MappingNode("", []), value


def _child(node: yaml.Node, key: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        child: yaml.Node = node.value[key]
        return child
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == key), None)
    return None
