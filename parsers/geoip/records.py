"""Records of MaxMind DB files as fields of ECS.

Source of the layout: MaxMind, "GeoIP and GeoLite Databases", City, Country, ASN and ISP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from etl.api import ComponentError
from parsers.common.distinct_lookup import DistinctLookup

MAX_FILES = 8
"""Open files of a process."""


class Detail(NamedTuple):
    """A field and its path in a record: keys, indexes of lists; ``names`` at the end for the name in the chosen language."""

    name: str
    type: pa.DataType
    path: tuple[str | int, ...]


_TEXT, _REAL, _WHOLE = pa.string(), pa.float64(), pa.int64()

_KINDS = {_TEXT: str, _REAL: float, _WHOLE: int}

REGION = "geo.region_iso_code"
"""The country's code, a hyphen and the region's, as ISO 3166-2 has it; a record has the region's alone."""

LOCATION_FIELDS = (
    Detail("geo.continent_code", _TEXT, ("continent", "code")),
    Detail("geo.continent_name", _TEXT, ("continent", "names")),
    Detail("geo.country_iso_code", _TEXT, ("country", "iso_code")),
    Detail("geo.country_name", _TEXT, ("country", "names")),
    Detail(REGION, _TEXT, ("subdivisions", -1, "iso_code")),
    Detail("geo.region_name", _TEXT, ("subdivisions", -1, "names")),
    Detail("geo.city_name", _TEXT, ("city", "names")),
    Detail("geo.postal_code", _TEXT, ("postal", "code")),
    Detail("geo.timezone", _TEXT, ("location", "time_zone")),
    Detail("geo.location.lat", _REAL, ("location", "latitude")),
    Detail("geo.location.lon", _REAL, ("location", "longitude")),
)
"""Fields of a place; of several regions that contain each other, the smallest counts, which is the last."""

NETWORK_FIELDS = (
    Detail("as.number", _WHOLE, ("autonomous_system_number",)),
    Detail("as.organization.name", _TEXT, ("autonomous_system_organization",)),
)


@lru_cache(maxsize=MAX_FILES)
def open_lookup(path: str, state: tuple[int, int], details: tuple[Detail, ...], language: str) -> DistinctLookup:
    """Addresses → details, from a file that is mapped into memory; another ``state`` means that the file has been replaced.

    Raises OSError or ValueError when it cannot be read.
    """
    import maxminddb

    try:
        database = maxminddb.open_database(path)
    except maxminddb.InvalidDatabaseError as error:
        raise ValueError(str(error)) from None
    read = [_reader(detail, language) for detail in details]
    only_ipv4 = database.metadata().ip_version == 4

    def find(text: str) -> tuple[Any, ...]:
        address = _address(text)
        if only_ipv4 and address.version == 6:
            return (None,) * len(details)
        try:
            record = database.get(address)
        except maxminddb.InvalidDatabaseError as error:
            raise ComponentError(f"MaxMind DB file {path!r} is damaged: {error}") from error
        return tuple(one(record) for one in read)

    return DistinctLookup(pa.schema([(detail.name, detail.type) for detail in details]), find)


def _address(text: str) -> Any:
    """Raises ValueError with the reason."""
    from ipaddress import ip_address

    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not an IP address") from None
    return getattr(address, "ipv4_mapped", None) or address


def _reader(detail: Detail, language: str) -> Callable[[Any], Any]:
    path = (*detail.path, language) if detail.path[-1] == "names" else detail.path
    fallback = (*detail.path, "en") if detail.path[-1] == "names" else ()
    kind = _KINDS[detail.type]

    def read(record: Any) -> Any:
        value = _value_at(record, path)
        value = _value_at(record, fallback) if value is None and fallback else value
        if not isinstance(value, kind):
            return None
        return _region(record, str(value)) if detail.name == REGION else value

    return read


def _value_at(record: Any, path: Iterable[str | int]) -> Any:
    for part in path:
        if isinstance(record, dict):
            record = record.get(part)
        elif isinstance(record, list) and record and isinstance(part, int):
            record = record[part]
        else:
            return None
    return record


def _region(record: Any, code: str) -> str:
    country = _value_at(record, ("country", "iso_code"))
    return f"{country}-{code}" if isinstance(country, str) else code
