"""Mappings for fields of a pipeline: by name where the Elastic Common Schema (ECS) defines it, else by type.

The types follow ECS's field reference (version 8). Types that not every server has are replaced: ``wildcard``,
``match_only_text`` and ``flattened`` become ``keyword``, ``text`` and a dynamic object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from etl.api import Schema

FieldMapping = dict[str, Any]
"""A part of a mapping, as JSON."""

MAX_KEYWORD_CHARS = 1024
"""Longest indexed text, in characters; longer ones are stored but not found by this field. As in ECS."""

_KEYWORD: FieldMapping = {"type": "keyword", "ignore_above": MAX_KEYWORD_CHARS}
_STORED: FieldMapping = {"type": "keyword", "index": False, "doc_values": False}
_TEXT: FieldMapping = {"type": "text", "norms": False}
_IP: FieldMapping = {"type": "ip"}
_DATE: FieldMapping = {"type": "date"}
_POINT: FieldMapping = {"type": "geo_point"}
_LONG: FieldMapping = {"type": "long"}

_POINT_NAME = re.compile(r"(.+\.)?geo\.location")

_TEXTS_BY_NAME: tuple[tuple[re.Pattern[str], FieldMapping], ...] = (
    (re.compile(r"event\.original"), _STORED),
    (re.compile(r"(.+\.)?(message|stack_trace)"), _TEXT),
    (re.compile(r"(.+[._])?ip"), _IP),
    (re.compile(r"@timestamp|event\.(created|start|end|ingested)"), _DATE),
    (_POINT_NAME, _POINT),
    (re.compile(r"(.+\.)?(port|pid|bytes|packets|status_code)"), _LONG),
)
"""Mapping of texts by their whole name; others are keywords."""

_DYNAMIC: tuple[FieldMapping, ...] = (
    {"ips": {"match_mapping_type": "string", "match": "ip", "mapping": _IP}},
    {"locations": {"path_match": "*.geo.location", "mapping": _POINT}},
    {"texts": {"match_mapping_type": "string", "match": "message", "mapping": _TEXT}},
    {"keywords": {"match_mapping_type": "string", "mapping": _KEYWORD}},
    {"decimals": {"match_mapping_type": "double", "mapping": {"type": "double"}}},
)
"""For members that no schema names, such as those of a map."""


def make_mappings(incoming: Schema) -> FieldMapping:
    """Return the mappings of an index for documents with these fields."""
    properties: FieldMapping = {}
    for field in sorted(incoming, key=lambda one: one.name):
        mapping = _map_field(field.name, field.type)
        if mapping is not None:
            _insert(properties, field.name.split("."), mapping)
    return {"date_detection": False, "dynamic_templates": [*_DYNAMIC], "properties": properties}


def _insert(properties: FieldMapping, path: list[str], mapping: FieldMapping) -> None:
    """Insert a mapping under its path; a field with members keeps them and has no value of its own."""
    for name in path[:-1]:
        if "properties" not in properties.get(name, {}):
            properties[name] = {"properties": {}}
        properties = properties[name]["properties"]
    properties.setdefault(path[-1], mapping)


def _map_field(name: str, type_: pa.DataType) -> FieldMapping | None:
    """Return the mapping of a field; None leaves it to the server."""
    if _POINT_NAME.fullmatch(name):
        return _POINT
    if pa.types.is_struct(type_):
        inner: FieldMapping = {}
        for member in type_:
            mapping = _map_field(f"{name}.{member.name}", member.type)
            if mapping is not None:
                _insert(inner, member.name.split("."), mapping)
        return {"properties": inner}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _map_field(name, type_.value_type)
    if _is_text(type_):
        return next((mapping for pattern, mapping in _TEXTS_BY_NAME if pattern.fullmatch(name)), _KEYWORD)
    return next((mapping for is_type, mapping in _BY_TYPE.items() if is_type(type_)), None)


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or type_ == pa.string_view()


_BY_TYPE: Mapping[Any, FieldMapping] = {
    pa.types.is_boolean: {"type": "boolean"},
    pa.types.is_integer: _LONG,
    pa.types.is_floating: {"type": "double"},
    pa.types.is_decimal: {"type": "double"},
    pa.types.is_temporal: _DATE,
}
