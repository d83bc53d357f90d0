"""Runs of bytes: hashes differ where the bytes do."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest

from etl.columns.texts import Texts
from etl.tables.hash_kernel import hash_texts

pytestmark = pytest.mark.slow

COUNT = 200_000
FAMILIES = {
    "addresses in text": (str(ipaddress.IPv4Address(n * 7919 % (1 << 32))) for n in range(COUNT)),
    "neighbouring addresses": (f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(COUNT)),
    "numbers after a name": (f"host-{n}.example" for n in range(COUNT)),
    "short numbers": (str(n) for n in range(COUNT)),
    "one byte set": ("a" * (n % 500) + "b" + "a" * (500 - n % 500 + n // 500) for n in range(COUNT // 20)),
    "times": (f"2026-11-23T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}.{n:06}" for n in range(COUNT)),
}


@pytest.mark.parametrize("texts", FAMILIES.values(), ids=FAMILIES)
def test_different_texts_have_different_hashes(texts: Iterable[str]) -> None:
    column = Texts.of(pa.array(dict.fromkeys(texts), pa.string()))
    hashes = np.empty(len(column.address), np.uint64)

    hash_texts(column.address, column.length, hashes)

    assert len(np.unique(hashes)) == len(hashes)
    for bits in (hashes & np.uint64(0xFFFF), hashes >> np.uint64(48)):  # what tables and caches use of a hash
        filled = len(np.unique(bits)) / (1 << 16)
        assert filled > 0.98 * (1 - np.exp(-len(hashes) / (1 << 16)))
