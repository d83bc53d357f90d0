"""JSON Schemas of options → type annotations of Python; options with options of their own become `TypedDict`s."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any

from etl.config.schema import Json

_ALIASES = {
    "Duration": ("str | timedelta", 'A length of time: ``"10m"`` (ms, s, m, h, d), or a timedelta.'),
    "Size": ("str | int", 'A number of bytes: ``"64KiB"``, ``"10MB"``, or a number.'),
    "Expression": ("str | Column", "Spark SQL over the fields of an event: text, or made by ``col``, ``fn`` and ``expr``."),
    "FilePath": ("str | PathLike[str]", "A path."),
    "TypeText": ("str | DataType", 'A type as Spark SQL names it: ``"int"``, ``"array<string>"``; or one of pyarrow.'),
    "Secret": ("str | SecretStr", "A secret; better ``${NAME}``, which is read from the environment."),
    "Time": ("str | datetime", "A point in time, in ISO 8601 or as a datetime."),
}
"""Alias → its type, and what it takes."""

_PATHS = ("path", "files", "pattern_files", "geo_database", "as_database", "certificate", "key", "authority", "public_suffixes")
"""Options that are paths."""


def argument_name(option: str) -> str:
    """``as_`` for the option ``as``, which Python reserves."""
    return f"{option}_" if iskeyword(option) else option


@dataclass
class Annotations:
    """Annotations made so far, with the `TypedDict`s that they name."""

    _texts: dict[str, str] = field(default_factory=dict)
    _shapes: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """All names that annotations use."""
        return [*_ALIASES, *self._texts]

    def of(self, option: str, schema: Any, owner: str) -> str:
        """The annotation of an option of a component."""
        if not isinstance(schema, dict) or not schema:
            return "Any"
        if "anyOf" in schema:
            return self._union(option, schema["anyOf"], owner)
        if "enum" in schema:
            return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
        if "const" in schema:
            return f"Literal[{json.dumps(schema['const'])}]"
        return self._plain(option, schema, owner)

    def declare(self, name: str, schema: Json, owner: str) -> str:
        """The `TypedDict` of a model under its name, or its owner's name and its own where another model has that name."""
        shape = json.dumps(schema["properties"], sort_keys=True)
        if self._shapes.setdefault(name, shape) != shape:
            name = f"{''.join(part.capitalize() for part in owner.split('_'))}{name}"
            self._shapes.setdefault(name, shape)
        if name not in self._texts:
            self._texts[name] = ""  # a model may contain itself
            self._texts[name] = self._typed_dict(name, schema, owner)
        return name

    def module_text(self) -> str:
        """The body of the module with all aliases and `TypedDict`s."""
        body = "\n\n".join(text for _, text in sorted(self._texts.items()))
        aliases = "\n".join(f'{name}: TypeAlias = "{type_}"\n"""{about}"""\n' for name, (type_, about) in _ALIASES.items())
        names = ("Any", "Literal", "Required", "TypeAlias", "TypedDict")
        typing = [name for name in names if name in body or name == "TypeAlias"]
        collections = [name for name in ("Mapping", "Sequence") if f"{name}[" in body]
        return (
            (f"from collections.abc import {', '.join(collections)}\n" if collections else "")
            + f"from typing import TYPE_CHECKING, {', '.join(typing)}\n\n"
            + "if TYPE_CHECKING:\n    from datetime import datetime, timedelta\n    from os import PathLike\n\n"
            + "    from pyarrow import DataType\n    from pydantic import SecretStr\n\n"
            + "    from etl.sdk.columns import Column\n\n"
            + f"{aliases}\n\n{body}"
        )

    def _union(self, option: str, schemas: Sequence[Json], owner: str) -> str:
        texts = list(dict.fromkeys(self.of(option, one, owner) for one in schemas))
        if "Size" in texts:
            texts = [one for one in texts if one != "int"]
        if "None" in texts:
            texts = [*(one for one in texts if one != "None"), "None"]
        return " | ".join(texts)

    def _plain(self, option: str, schema: Json, owner: str) -> str:
        kind = schema.get("type")
        if kind == "array":
            return f"Sequence[{self.of(option, schema.get('items', {}), owner)}]"
        if kind == "object":
            return self._object(option, schema, owner)
        names = {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}
        return names[kind] if kind in names else _text(option, schema)

    def _object(self, option: str, schema: Json, owner: str) -> str:
        if "properties" in schema:
            return self.declare(str(schema.get("title", f"{option.capitalize()}Options")), schema, owner)
        values = schema.get("additionalProperties")
        patterns: Mapping[str, Any] = schema.get("patternProperties", {})
        inner = next(iter(patterns.values()), values if isinstance(values, dict) else {})
        if option in ("fields", "columns") and inner == {"type": "string"}:
            return "Mapping[str, TypeText]"
        return f"Mapping[str, {self.of('', inner, owner)}]"

    def _typed_dict(self, name: str, schema: Json, owner: str) -> str:
        """In the form of a class, or, where a key is a word of Python, in that of a call."""
        properties = schema["properties"]
        types = {key: self.of(key, one, owner) for key, one in properties.items()}
        for key in schema.get("required", ()):
            types[key] = f"Required[{types[key]}]"
        about = " ".join(str(schema.get("description", "Options.")).partition("\n")[0].split())
        if any(iskeyword(key) for key in types):
            items = "".join(f'        "{key}": "{_single_quoted(type_)}",\n' for key, type_ in types.items())
            return f'{name} = TypedDict(\n    "{name}",\n    {{\n{items}    }},\n    total=False,\n)\n"""{about}"""\n'
        lines = "".join(
            f'    {key}: {type_}\n    """{_one_line(properties[key].get("description", ""))}"""\n' for key, type_ in types.items()
        )
        return f'class {name}(TypedDict, total=False):\n    """{about}"""\n\n{lines}'


def _single_quoted(type_: str) -> str:
    """A quoted annotation: texts inside it in single quotes."""
    return type_.replace('"', "'")


def _one_line(text: object) -> str:
    return " ".join(str(text).split()).replace("\\", "\\\\").replace('"', "'")


def _text(option: str, schema: Json) -> str:
    """The annotation of a text."""
    pattern = str(schema.get("pattern", ""))
    if schema.get("writeOnly"):
        return "Secret"
    if schema.get("format") == "spark-sql":
        return "Expression"
    if schema.get("format") == "date-time":
        return "Time"
    if pattern.endswith("(?:ms|s|m|h|d)$"):
        return "Duration"
    if pattern.endswith("GiB)$"):
        return "Size"
    return "FilePath" if option in _PATHS else "str"
