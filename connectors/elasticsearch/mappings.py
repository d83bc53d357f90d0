"""Mappings for fields of a pipeline: by their names where the Elastic Common Schema (ECS) has them, else by their types.

The types of ECS are those of its field reference (version 8); where ECS says ``wildcard``, ``match_only_text`` or ``flattened``,
which not every server has, it is ``keyword``, ``text`` or a dynamic object here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from etl.api import Schema

Mapped = dict[str, Any]
"""A part of a mapping, as JSON."""

LONGEST_KEYWORD = 1024
"""Characters of a text that are indexed; longer ones stay in the document and are not found by this field. As in ECS."""

_KEYWORD: Mapped = {"type": "keyword", "ignore_above": LONGEST_KEYWORD}
_STORED: Mapped = {"type": "keyword", "index": False, "doc_values": False}
_TEXT: Mapped = {"type": "text", "norms": False}
_IP: Mapped = {"type": "ip"}
_DATE: Mapped = {"type": "date"}
_POINT: Mapped = {"type": "geo_point"}
_LONG: Mapped = {"type": "long"}

_POINT_NAME = re.compile(r"(.+\.)?geo\.location")

_TEXTS_BY_NAME: tuple[tuple[re.Pattern[str], Mapped], ...] = (
    (re.compile(r"event\.original"), _STORED),
    (re.compile(r"(.+\.)?(message|stack_trace)"), _TEXT),
    (re.compile(r"(.+[._])?ip"), _IP),
    (re.compile(r"@timestamp|event\.(created|start|end|ingested)"), _DATE),
    (_POINT_NAME, _POINT),
    (re.compile(r"(.+\.)?(port|pid|bytes|packets|status_code)"), _LONG),
)
"""What texts are by their whole name; others are keywords."""

_DYNAMIC: tuple[Mapped, ...] = (
    {"ips": {"match_mapping_type": "string", "match": "ip", "mapping": _IP}},
    {"locations": {"path_match": "*.geo.location", "mapping": _POINT}},
    {"texts": {"match_mapping_type": "string", "match": "message", "mapping": _TEXT}},
    {"keywords": {"match_mapping_type": "string", "mapping": _KEYWORD}},
    {"decimals": {"match_mapping_type": "double", "mapping": {"type": "double"}}},
)
"""For members that no schema names, such as those of a map."""


def mappings(incoming: Schema) -> Mapped:
    """The mappings of an index for documents with these fields."""
    properties: Mapped = {}
    for field in sorted(incoming, key=lambda one: one.name):
        mapped = _mapped(field.name, field.type)
        if mapped is not None:
            _put(properties, field.name.split("."), mapped)
    return {"date_detection": False, "dynamic_templates": [*_DYNAMIC], "properties": properties}


def _put(properties: Mapped, path: list[str], mapped: Mapped) -> None:
    """Under its path; a field that has members keeps them and no value of its own."""
    for name in path[:-1]:
        if "properties" not in properties.get(name, {}):
            properties[name] = {"properties": {}}
        properties = properties[name]["properties"]
    properties.setdefault(path[-1], mapped)


def _mapped(name: str, type_: pa.DataType) -> Mapped | None:
    """One field; None where the server is to look at the values."""
    if _POINT_NAME.fullmatch(name):
        return _POINT
    if pa.types.is_struct(type_):
        inner: Mapped = {}
        for member in type_:
            mapped = _mapped(f"{name}.{member.name}", member.type)
            if mapped is not None:
                _put(inner, member.name.split("."), mapped)
        return {"properties": inner}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _mapped(name, type_.value_type)
    if _is_text(type_):
        return next((mapped for pattern, mapped in _TEXTS_BY_NAME if pattern.fullmatch(name)), _KEYWORD)
    return next((mapped for is_type, mapped in _BY_TYPE.items() if is_type(type_)), None)


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or type_ == pa.string_view()


_BY_TYPE: Mapping[Any, Mapped] = {
    pa.types.is_boolean: {"type": "boolean"},
    pa.types.is_integer: _LONG,
    pa.types.is_floating: {"type": "double"},
    pa.types.is_decimal: {"type": "double"},
    pa.types.is_temporal: _DATE,
}
