"""The JSON Schema of pipeline files, built from the component classes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from etl.api import Component, Duration, Family, format_duration
from etl.catalogue import FAMILIES, Catalogue
from etl.config.cases.case_schema import definitions as case_definitions
from etl.config.model import RunOptions
from etl.config.options.pattern_words import WORDS

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]*$"
"""Names of sources, streams and sinks."""

_NAME_WORDS = "is not a name: a name is a letter, then letters, digits, '_' and '-'"

Json = dict[str, Any]

_SHORT = ("source", "steps", "sink")
_LONG = ("sources", "streams", "sinks")
_PLAIN_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def pipeline_schema(catalogue: Catalogue) -> Json:
    """The schema of a pipeline made of these components, for validation and for completion in editors."""
    defs = _definitions(catalogue)
    defs |= {family: _family(family, catalogue.families[family], defs) for family in FAMILIES}
    defs["from"] = {
        "description": "The source or stream to read, or a list of them (a union by field name).",
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}],
    }
    defs["steps"] = {"description": "What is done to the events, in order.", "type": "array", "items": _ref("step")}
    defs["stream"] = {
        "type": "object",
        "properties": {"description": _TEXT, "from": _ref("from"), "steps": _ref("steps")},
        "additionalProperties": False,
    }
    defs["output"] = {"allOf": [_ref("sink")], "required": ["from"]}
    defs["last"] = {"allOf": [_ref("sink")], "properties": {"from": False}}
    defs |= case_definitions()
    return {
        "$schema": _PLAIN_DIALECT,
        "title": "Sluice pipeline",
        "description": "Sources, the steps done to their events, and the sinks they are delivered to.",
        "type": "object",
        "properties": _top_level(),
        "additionalProperties": False,
        "oneOf": [_form("source", _LONG), _form("sources", _SHORT)],
        "$defs": dict(sorted(defs.items())),
    }


def option_schemas(component: type[Component]) -> Mapping[str, Json]:
    """Option → its JSON schema, with `$ref` to nothing outside: what a reference page needs."""
    schema = component.model_json_schema(schema_generator=_Untitled)
    return {name: _inline(option, schema.get("$defs", {})) for name, option in schema["properties"].items() if name != "type"}


class _Untitled(GenerateJsonSchema):
    """Pydantic's schema without a title at every field, and with durations as they are written."""

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, BaseModel):
            return {name: self.encode_default(value) for name, value in dft if value is not None}
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def list_schema(self, schema: Any) -> Json:
        return _or_single(super().list_schema(schema))

    def tuple_schema(self, schema: Any) -> Json:
        return _or_single(super().tuple_schema(schema))

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _or_single(array: Json) -> Json:
    """A list, or a single value in its place (see `etl.contract.lists`)."""
    items = array.get("items", {})
    single = items.get("anyOf", [items])
    scalar = all(one.get("type") in _SCALARS or "const" in one for one in single)
    return {"anyOf": [*single, array]} if scalar and array.get("minItems", 0) <= 1 else array


_SCALARS = ("string", "integer", "number")
_TEXT: Json = {"type": "string", "description": "What it is for."}


_FUNCTIONS: Json = {
    "type": "object",
    "description": "Functions of your own, by the names that expressions use: a Python file and the function in it.",
    "additionalProperties": {
        "anyOf": [
            {
                "type": "string",
                "minLength": 1,
                "description": "`file.py:name` or `module:name`; without a name the function is called as its key.",
            },
            {
                "type": "object",
                "properties": {
                    "file": {"type": "string", "minLength": 1, "description": "Python file, relative to the pipeline file."},
                    "module": {
                        "type": "string",
                        "minLength": 1,
                        "description": "Module instead of a file: beside the pipeline file, or installed.",
                    },
                    "code": {"type": "string", "minLength": 1, "description": "Python code itself, instead of a file."},
                    "function": {"type": "string", "minLength": 1, "description": "Name in the file; the key by default."},
                    "timeout": {
                        **TypeAdapter(Duration).json_schema(),
                        "description": "Longest time of one call, for a batch or for an event; 30s by default.",
                    },
                },
                "additionalProperties": False,
            },
        ]
    },
}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _top_level() -> Json:
    return {
        "name": {
            "type": "string",
            "pattern": NAME_PATTERN,
            WORDS: _NAME_WORDS,
            "description": "The pipeline's name; the file's name by default.",
        },
        "description": _TEXT,
        "source": {"description": "Short form: the one source.", **_ref("source")},
        "steps": {"description": "Short form: what is done to its events.", **_ref("steps")},
        "sink": {"description": "Short form: where they go; the console by default.", **_ref("last")},
        "sources": _make_definition("source", "Where events come from, by name.", minProperties=1),
        "streams": _make_definition("stream", "Steps one after another, by name."),
        "sinks": _make_definition("output", "Where events go, by name; the console by default."),
        "tables": _make_definition("table", "What steps look up, by name."),
        "functions": _FUNCTIONS,
        "dead_letters": {"description": "Where rejected events go; files under the state folder by default.", **_ref("last")},
        "run": {"description": "How the pipeline runs.", **_ref("RunOptions")},
        "tests": _ref("tests"),
    }


def _make_definition(definition: str, description: str, **more: object) -> Json:
    return {"type": "object", "description": description, "additionalProperties": _ref(definition), **more}


def _form(required: str, others: tuple[str, ...]) -> Json:
    return {"required": [required], "not": {"anyOf": [{"required": [other]} for other in others]}}


def _family(family: Family, members: Mapping[str, type[Component]], defs: Json) -> Json:
    branches = [
        {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": _ref(f"{family}.{name}")}
        for name in members
    ]
    return {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"description": f"Which {family}.", "enum": list(members)}},
        **({"allOf": branches} if branches else {}),
    }


def _definitions(catalogue: Catalogue) -> Json:
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(RunOptions, "validation")]
    models += [(c, "validation") for family in FAMILIES for c in catalogue.families[family].values()]
    refs, generated = models_json_schema(models, schema_generator=_Untitled)
    defs: Json = generated["$defs"]
    for family in FAMILIES:
        for name, component in catalogue.families[family].items():
            defs[f"{family}.{name}"] = _component(family, name, component, _resolve(refs[component, "validation"], defs))
    used_once = {refs[model, mode]["$ref"].rpartition("/")[2] for model, mode in models if model is not RunOptions}
    shared = {name: schema for name, schema in defs.items() if name not in used_once}
    for schema in shared.values():
        schema.pop("title", None)
        _close_keys(schema)
    return shared


def _close_keys(schema: Any) -> None:
    """Forbid keys that do not match a pattern: pydantic's schema allows them, its models do not."""
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _close_keys(part)
    if isinstance(schema, dict) and "patternProperties" in schema:
        schema.setdefault("additionalProperties", False)


def _resolve(ref: Mapping[str, Any], defs: Json) -> Json:
    return defs[ref["$ref"].rpartition("/")[2]]


def _component(family: Family, name: str, component: type[Component], generated: Json) -> Json:
    properties = {**generated["properties"], "type": {"const": name, "description": summary(component)}}
    if family == "sink":
        properties["from"] = _ref("from")
    required = {"required": generated["required"]} if "required" in generated else {}
    return {
        "description": inspect.getdoc(component) or "",
        "type": "object",
        "properties": properties,
        **required,
        "additionalProperties": False,
    }


def summary(component: type[Component]) -> str:
    """The first line of a component's docstring."""
    return (inspect.getdoc(component) or "").partition("\n")[0]


def _inline(schema: Any, defs: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline(item, defs) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        name = schema["$ref"].rpartition("/")[2]
        return {**_inline(defs[name], {other: of for other, of in defs.items() if other != name}), **rest}
    return {key: _inline(value, defs) for key, value in schema.items()}
