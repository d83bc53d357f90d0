"""Functions that are parsers of the pipeline: the component reads the column, as its step does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Entry, Parser
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal
from etl.expressions.casts import cast
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import on_columns
from etl.expressions.widening import STRING

_TEXTS = pa.map_(STRING, STRING)
_FIELD = "text"
"""The field that the component reads."""


@lru_cache(maxsize=16)
def _parser(type_: str) -> type[Parser]:
    """The installed parser of this name: expressions are below the catalogue, and look among the entry points themselves.

    Raises MisuseError.
    """
    for entry in entry_points(group="etl.components"):
        for one in getattr(entry.load(), "COMPONENTS", ()):
            if isinstance(one, Entry) and one.family == "step" and one.type == type_:
                module, _, name = one.address.partition(":")
                found = getattr(import_module(module), name)
                assert issubclass(found, Parser)
                return found
    raise MisuseError(f"the parser {type_!r} is not installed")


def _component(type_: str, **options: Any) -> Parser:
    """The parser with these options. Raises MisuseError with what lint says of them."""
    found = _parser(type_).model_validate({"type": type_, "field": _FIELD, **options})
    incoming = pa.schema([(_FIELD, STRING), ("_offset", pa.int64())])
    for finding in found.check(incoming):
        if finding.severity == "error":
            raise MisuseError(finding.message, hint=finding.hint)
    return found


def _parsed_by(component: Parser) -> Callable[[Any], tuple[Mapping[str, Any], Any]]:
    """A function: texts → the columns, and which texts failed. The parser is compiled when the first batch comes."""
    compiled: list[Callable[[Any], Any]] = []

    def parse(texts: Any) -> tuple[Mapping[str, Any], Any]:
        if not compiled:
            compiled.append(component.compile())
        found = compiled[0](texts)
        failed = pa.repeat(pa.scalar(False), len(texts)) if found.failed is None else found.failed
        return found.columns, pc.or_(failed, pc.is_null(texts))

    return parse


def _as_texts(column: Any) -> Any:
    """A column as texts; several values of one name as a JSON array."""
    if pa.types.is_list(column.type):
        return pa.array([None if one is None else json.dumps(one, ensure_ascii=False) for one in column.to_pylist()], STRING)
    return pc.cast(column, STRING)


def _map_of(columns: Mapping[str, Any], failed: Any) -> Any:
    """A map of the values that are not null, for each row; null where the text failed."""
    import numpy as np

    texts = [_as_texts(column) for column in columns.values()]
    rows = len(failed)
    valid = np.array([one.is_valid().to_numpy(zero_copy_only=False) for one in texts], bool).reshape(len(texts), rows).T
    valid &= ~failed.to_numpy(zero_copy_only=False)[:, np.newaxis]
    row, column = np.nonzero(valid)
    offsets = np.concatenate(([0], np.cumsum(valid.sum(axis=1)))).astype(np.int32)
    keys = pa.array(list(columns), STRING).take(pa.array(column))
    values = pa.concat_arrays([pa.array([], STRING), *texts]).take(pa.array(column * rows + row))
    made = pa.MapArray.from_arrays(pa.array(offsets), keys, values)
    return pc.if_else(failed, pa.scalar(None, made.type), made)


def _grok_of(pattern: BoundNode) -> Parser:
    text = text_literal(pattern)
    if text is None:
        raise MisuseError("the pattern is a constant in quotes")
    return _component("grok", patterns=[text])


def grok(text: BoundNode, pattern: BoundNode) -> BoundNode:
    """The fields of a pattern as a map."""
    parse = _parsed_by(_grok_of(pattern))
    return on_columns(_TEXTS, lambda texts: _map_of(*parse(texts)), text)


def grok_get(text: BoundNode, pattern: BoundNode, name: BoundNode) -> BoundNode:
    """One field of a pattern."""
    component, field = _grok_of(pattern), text_literal(name)
    names = component.parsed_fields().names
    if field is None or field not in names:
        raise MisuseError(f"the pattern has no field {field!r}", hint=f"it has {', '.join(names) or 'none'}")
    parse = _parsed_by(component)

    def run(texts: Any) -> Any:
        columns, failed = parse(texts)
        return pc.if_else(failed, pa.scalar(None, STRING), _as_texts(columns[field]))

    return on_columns(STRING, run, text)


_GEO_FIELDS: Mapping[str, str] = {
    "continent": "continent_name",
    "country": "country_iso_code",
    "region": "region_iso_code",
    "city": "city_name",
    "latitude": "location.lat",
    "longitude": "location.lon",
}
"""Short names of details."""


def geo(address: BoundNode, detail: BoundNode, database: BoundNode) -> BoundNode:
    """One detail of an address in a MaxMind DB file."""
    name, path = text_literal(detail), text_literal(database)
    if not name or not path:
        raise MisuseError("the detail and the file are constants in quotes")
    if pa.types.is_null(address.type):
        return cast(address, STRING)  # whatever the file holds
    if address.type != STRING:
        raise MisuseError("the address is a text")
    name = _GEO_FIELDS.get(name, name)
    is_network = name in ("asn", "as.number", "organization", "as.organization.name")
    field = {"asn": "as.number", "organization": "as.organization.name"}.get(name, name if is_network else f"geo.{name}")
    component = _component("geoip", **{"as_database" if is_network else "geo_database": path})
    fields = component.parsed_fields()
    if field not in fields.names:
        known = ", ".join(one.removeprefix("geo.") for one in fields.names)
        raise MisuseError(f"there is no detail {name!r}", hint=f"details are {known}, asn, organization")
    parse = _parsed_by(component)

    def run(texts: Any) -> Any:
        columns, failed = parse(texts)
        return pc.if_else(failed, pa.scalar(None, fields.field(field).type), columns[field])

    return on_columns(fields.field(field).type, run, address)


def _public_suffixes() -> str:
    """The file of the installed Public Suffix List. Raises MisuseError."""
    found = find_spec("publicsuffixlist")
    if found is None or not found.submodule_search_locations:
        hint = "pip install 'sluice-etl[domains]'; or the parser url with its option public_suffixes, which takes any file"
        raise MisuseError("the Public Suffix List is not installed", hint=hint)
    return os.path.join(found.submodule_search_locations[0], "public_suffix_list.dat")


def _domain_part(field: str) -> Callable[[BoundNode], BoundNode]:
    """A part of a domain by the Public Suffix List, as the step `url` finds it."""

    def bind(domain: BoundNode) -> BoundNode:
        parse = _parsed_by(_component("url", public_suffixes=_public_suffixes()))

        def run(texts: Any) -> Any:
            is_url = pc.fill_null(pc.match_substring(texts, "://"), True)
            urls = pc.if_else(is_url, texts, pc.binary_join_element_wise("http://", texts, ""))
            columns, failed = parse(urls)
            return pc.if_else(failed, pa.scalar(None, STRING), _as_texts(columns[f"url.{field}"]))

        return on_columns(STRING, run, domain)

    return bind


_NO_MATCH = "null if the text is null or does not match"
_NO_DOMAIN = "null if the text is null, an address, no domain, or a public suffix itself"

FUNCTIONS = (
    LibraryFunction(
        "grok",
        "text: string, pattern: string",
        "map<string,string>",
        grok,
        "The fields that a grok pattern finds in a text, as the step `grok` reads it; a field that matches nothing is left out.",
        "grok('GET /index.html', '%{WORD:method} %{NOTSPACE:path}')",
        [("method", "GET"), ("path", "/index.html")],
        null=_NO_MATCH,
    ),
    LibraryFunction(
        "grok_get",
        "text: string, pattern: string, name: string",
        "string",
        grok_get,
        "One field that a grok pattern finds in a text, as the step `grok` reads it.",
        "grok_get('GET /index.html', '%{WORD:method} %{NOTSPACE:path}', 'path')",
        "/index.html",
        null=_NO_MATCH,
    ),
    LibraryFunction(
        "geo",
        "address: any, detail: string, database: string",
        "a text, a number for latitude, longitude and asn",
        geo,
        "A detail of an address in a file of MaxMind DB, as the step `geoip` reads it: country, country_name, region, city, "
        "continent, postal_code, timezone, latitude, longitude; of a file of networks asn and organization.",
        "geo(null, 'country', '/var/lib/GeoIP/GeoLite2-City.mmdb')",
        None,
        null="null if the address is null, no address, or not in the file",
    ),
    LibraryFunction(
        "registered_domain",
        "domain: string",
        "string",
        _domain_part("registered_domain"),
        "The part of a domain or URL that somebody has registered: its public suffix and the label before it, in lower case. "
        "Needs `sluice-etl[domains]`, which has the Public Suffix List.",
        "registered_domain('www.bbc.co.uk')",
        "bbc.co.uk",
        null=_NO_DOMAIN,
    ),
    LibraryFunction(
        "subdomain",
        "domain: string",
        "string",
        _domain_part("subdomain"),
        "The labels before the registered domain of a domain or URL.",
        "subdomain('a.www.bbc.co.uk')",
        "a.www",
        null=f"{_NO_DOMAIN}, and where there are none",
    ),
    LibraryFunction(
        "public_suffix",
        "domain: string",
        "string",
        _domain_part("top_level_domain"),
        "The suffix under which a domain, or that of a URL, was registered: by the longest rule of the Public Suffix List, else "
        "its last label.",
        "public_suffix('www.bbc.co.uk')",
        "co.uk",
        null="null if the text is null, an address or no domain",
    ),
)
