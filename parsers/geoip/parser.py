"""The parser `geoip`: the place and the network of an IP address."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import pyarrow as pa
from pydantic import Field

from etl.api import ComponentError, FieldName, Finding, Parsed, Parser, Schema
from parsers.geoip.records import LOCATION_FIELDS, NETWORK_FIELDS, Detail, open_lookup


class Geoip(Parser):
    """Look up places and networks of IP addresses in MaxMind DB files.

    No file comes with this package; use your own: GeoLite2 and GeoIP2 of MaxMind, DB-IP and others in their layout.
    ``geo_database`` (City, Country, Enterprise) gives the fields ``geo.*`` of ECS, ``as_database`` (ASN, ISP) ``as.number`` and
    ``as.organization.name``, under ``target``. Values that a file lacks are null; public files have no
    private addresses. A null address gives nulls; a text that is not an address fails. An address may have a zone
    (``fe80::1%eth0``), and IPv4 inside IPv6 (``::ffff:192.0.2.1``) counts as IPv4.

    On a cluster each host needs the files at the same path. A replaced file is read again with the next
    micro-batch; replace it with a rename. A distinct address is looked up once, in about 15 µs; 100,000 of them are cached.

    ```yaml
    type: geoip
    field: source.ip
    geo_database: /var/lib/GeoIP/GeoLite2-City.mmdb
    as_database: /var/lib/GeoIP/GeoLite2-ASN.mmdb
    ```
    """

    type: Literal["geoip"] = "geoip"
    field: FieldName = Field(default="source.ip", description="The field with the address.")
    keep_field: bool = Field(default=True, description="Keep the address beside the fields it gave.")
    target: FieldName | None = Field(
        default=None, description="The object that gets the fields; none means the one that the address is in."
    )
    geo_database: str | None = Field(
        default=None, min_length=1, description="File of places.", examples=["/var/lib/GeoIP/GeoLite2-City.mmdb"]
    )
    as_database: str | None = Field(
        default=None, min_length=1, description="File of networks.", examples=["/var/lib/GeoIP/GeoLite2-ASN.mmdb"]
    )
    language: str = Field(
        default="en", min_length=2, description="Language of names, where the file has it.", examples=["en", "de", "zh-CN"]
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The address field, and files that are missing or are not MaxMind DB."""
        yield from super().check(incoming)
        if not self._databases:
            yield Finding("no-database", "geoip needs a geo_database, an as_database or both", (), "name a file you have")
        for option, path, _ in self._databases:
            try:
                open_lookup(path, _file_state(path), (), self.language)
            except (OSError, ValueError) as error:
                yield Finding("unreadable-file", f"MaxMind DB file {path!r} cannot be read: {error}", (option,))

    def parsed_fields(self) -> Schema:
        """The places' fields, then the networks'."""
        names = ((self._name(detail.name), detail.type) for _, _, details in self._databases for detail in details)
        return pa.schema(list(names))

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """Look each address up in each file. Raises ComponentError when a file cannot be read."""
        lookups = [self._lookup(path, details) for _, path, details in self._databases]

        def parse(texts: pa.Array) -> Parsed:
            plain = texts.cast(pa.string())
            found = [look(plain) for look in lookups]
            columns = {self._name(name): column for one in found for name, column in one.columns.items()}
            return found[0]._replace(columns=columns) if found else Parsed({})

        return parse

    def _lookup(self, path: str, details: tuple[Detail, ...]) -> Callable[[pa.Array], Parsed]:
        try:
            return open_lookup(path, _file_state(path), details, self.language)
        except (OSError, ValueError) as error:
            raise ComponentError(f"MaxMind DB file {path!r} cannot be read: {error}") from error

    @property
    def _databases(self) -> list[tuple[str, str, tuple[Detail, ...]]]:
        """Option, path and details of each file that is given."""
        return list(self._database_options())

    def _database_options(self) -> Iterator[tuple[str, str, tuple[Detail, ...]]]:
        if self.geo_database is not None:
            yield "geo_database", self.geo_database, LOCATION_FIELDS
        if self.as_database is not None:
            yield "as_database", self.as_database, NETWORK_FIELDS

    def _name(self, detail: str) -> str:
        target = self.field.rpartition(".")[0] if self.target is None else self.target
        return f"{target}.{detail}" if target else detail


def _file_state(path: str) -> tuple[int, int]:
    """Another value when the file has been replaced."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_ino
