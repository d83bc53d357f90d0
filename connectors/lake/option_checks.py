"""Checks of the sink's options that need no connection."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from connectors.lake.partition_fields import PartitionField, transform_problem
from connectors.lake.table_schema import LakeFormat, UnsupportedTypeError, bad_names, column_type, is_bytes
from etl.api import Finding, Schema, format_type, unknown_field, visible

_SCHEMES = ("s3", "s3a", "gs", "abfs", "abfss", "az", "adl", "file")
"""Schemes of a table of Delta Lake."""

_URIS = {
    "rest": re.compile(r"https?://."),
    "sql": re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\+[A-Za-z0-9_]+)?://"),
    "glue": re.compile(r""),
}
"""Kind of catalog → how its address begins."""

_LOGIN = re.compile(r"://[^/@:]*:[^/@]+@")


def check_address(lake_format: LakeFormat, table: str, has_catalog: bool) -> Iterator[Finding]:
    """The table is named as its format needs it."""
    scheme, separator, _ = table.partition("://")
    if lake_format == "iceberg":
        if not has_catalog:
            hint = "add catalog: {type: rest, uri: https://…}, or sql or glue"
            yield Finding("missing-option", "format: iceberg finds its tables in a catalog", (), hint)
        if separator or "/" in table or "." not in table.strip("."):
            hint = "write it as logs.events; the catalog knows where it is stored"
            yield Finding("bad-table-name", f"{table!r} is not a name with a namespace", ("table",), hint)
        return
    if has_catalog:
        yield Finding("unused-option", "format: delta needs no catalog", ("catalog",), severity="warning")
    if separator and scheme not in _SCHEMES:
        hint = f"write a folder, or a URI with {', '.join(_SCHEMES)}"
        yield Finding("unknown-scheme", f"{scheme!r} is not an object store of Delta Lake", ("table",), hint)


def check_catalog(kind: str, uri: str | None) -> Iterator[Finding]:
    """The catalog has an address without a password."""
    if uri is None and kind != "glue":
        yield Finding("missing-option", f"a catalog of type {kind} needs uri", ("catalog", "uri"))
    if uri is not None and not _URIS[kind].match(uri):
        hint = "write it as https://catalog.example.org" if kind == "rest" else "write it as sqlite:////var/lib/sluice/catalog.db"
        yield Finding(
            "unknown-scheme",
            f"{'the text' if '@' in uri else repr(uri)} is not an address of a catalog of type {kind}",
            ("catalog", "uri"),
            hint,
        )
    elif uri is not None and _LOGIN.search(uri):
        hint = "leave it out of uri, and give the whole address under catalog.properties: {uri: '${CATALOG_URI}'}"
        yield Finding("url-with-password", "the address of the catalog has a password", ("catalog", "uri"), hint)


def check_columns(lake_format: LakeFormat, incoming: Schema) -> Iterator[Finding]:
    """Each field can be a column."""
    for one in visible(incoming):
        try:
            column_type(one.type, lake_format)
        except UnsupportedTypeError as error:
            cure = f"cast it before, such as set: {one.name}: cast(`{one.name}` as string), or leave it out with drop"
            yield Finding(
                "unsupported-type", f"the field {one.name!r} has the type {error}, which {lake_format} does not have", (), cure
            )
    for name, reason in bad_names(incoming, lake_format):
        yield Finding("bad-column-name", f"the field {name!r} {reason}", (), "rename it before with rename")


def check_partitions(lake_format: LakeFormat, fields: Sequence[PartitionField], incoming: Schema) -> Iterable[Finding]:
    """Fields of partitions exist, and have types that their transforms accept."""
    known = {one.name: one.type for one in visible(incoming)}
    names = [(one.field, one.transform) for one in fields]
    for number, one in enumerate(fields):
        path = ("partition_by", number)
        if one.field not in known:
            yield unknown_field(one.field, incoming, path)
            continue
        if (one.field, one.transform) in names[:number]:
            yield Finding("duplicate-name", f"{one.name} is there twice", path)
        if lake_format == "delta" and one.transform != "identity":
            hint = f"make a field before, such as set: {one.transform}: date({one.field}), and name that"
            yield Finding("unsupported-partition", "Delta Lake partitions by columns, and has no transforms", path, hint)
        elif lake_format == "delta" and "." in one.field:
            hint = "copy it to a field without a dot before, with set, and name that"
            yield Finding(
                "unsupported-partition", f"{one.field!r} is inside a struct, by which Delta Lake cannot partition", path, hint
            )
        elif lake_format == "delta" and is_bytes(known[one.field]):
            hint = "partition by another field, or make a text of it before with set"
            yield Finding("unsupported-partition", f"{one.field!r} has bytes, by which this sink does not partition", path, hint)
        elif problem := transform_problem(one, known[one.field]):
            yield Finding(
                "unsupported-partition", f"{problem.replace(str(known[one.field]), format_type(known[one.field]))}", path
            )
    if lake_format == "delta" and fields and {one.field for one in fields} >= set(known):
        yield Finding("unsupported-partition", "a table needs a column beside those that it is partitioned by", ("partition_by",))
