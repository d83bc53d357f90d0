"""Number functions: ``conv``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from etl.expressions import analyse, compile_expression

SCHEMA = pa.schema([("s", pa.string())])


def values(text: str, *given: str | None) -> list[Any]:
    return list(
        compile_expression(text, SCHEMA)(pa.record_batch([pa.array(given, pa.string())], schema=SCHEMA)).values.to_pylist()
    )


def test_a_number_in_another_base() -> None:
    assert values("conv(s, 16, 10)", "0050", "ff", "FG", None, "x", "") == ["80", "255", "15", None, "0", None]
    assert values("conv(s, 36, 10)", "ss", "ß") == ["1036", "0"]
    assert values("conv(s, 10, 16)", "-1", " 255", "007") == ["FFFFFFFFFFFFFFFF", "FF", "7"]


def test_a_number_beyond_64_bits_fails() -> None:
    found = compile_expression("conv(s, 16, 10)", SCHEMA)(
        pa.record_batch([pa.array(["FFFFFFFFFFFFFFFF", "1" + "0" * 16])], schema=SCHEMA)
    )

    assert found.values[0].as_py() == "18446744073709551615"
    assert found.failed is not None
    assert found.failed.to_pylist() == [False, True]


def test_computed_and_negative_bases_are_left_to_spark() -> None:
    assert analyse("conv(s, 16, -10)", SCHEMA).spark_reason
