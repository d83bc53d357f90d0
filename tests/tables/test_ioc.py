"""A list of bad addresses that others keep: every one is found, and no other."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.lookup_tables.file import FileTable
from etl.tables.table_file import Shape
from etl.tables.table_store import LiveTable, TableRequest, refresh

ADDRESSES = 120_430


@pytest.mark.slow
def test_all_addresses_are_found_and_no_others(acceptance: Path, tmp_path: Path) -> None:
    path = acceptance / "ioc" / "ipsum.txt.gz"
    options = {"path": str(path), "delimiter": "\t", "header": ["ip", "lists"], "key": "ip", "columns": {"lists": "int"}}
    table = FileTable.model_validate(options)
    rows = pa.Table.from_batches(table.read(["ip", "lists"])).combine_chunks()
    bad = rows.column("ip").chunk(0)
    known = set(bad.to_pylist())
    numbers = (int(ipaddress.IPv4Address(text)) for text in known)
    others = [text for number in numbers if (text := str(ipaddress.IPv4Address((number + 1) % 2**32))) not in known]
    more = (str(ipaddress.IPv4Address(number)) for number in range(1 << 24, 1 << 32, 65_537))
    others = list(dict.fromkeys([*others, *(text for text in more if text not in known)]))[:ADDRESSES]

    expected = TableRequest("intel", table, Shape(("ip",), pa.schema([("lists", pa.int32())])))
    refresh(expected, tmp_path)
    mapped = LiveTable(tmp_path / expected.id).newest()

    assert (len(known), len(others)) == (ADDRESSES, ADDRESSES)
    assert mapped.values("lists", mapped.find([bad])).equals(rows.column("lists").chunk(0))
    assert set(mapped.find([pa.array(others)]).tolist()) == {-1}
