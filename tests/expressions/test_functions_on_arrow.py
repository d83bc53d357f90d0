"""Functions that Arrow computes for constant arguments and usual texts give what Python gives for each value."""

from __future__ import annotations

import hashlib
import ipaddress
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.expressions import compile_expression
from etl.expressions.library.flink.urls import parse_url
from etl.expressions.library.own.ip_functions import _class

TEXTS = [
    None, "", " ", "a", "hello wORLD 42", "x.y@z, a.b", "ÉCOLE été é1a", "日本語 abc", "\U0001f600a b\U0001f600", "a\nb", ",,",
    "a,b,", "ab" * 40, "-5", "Zz9_zZ", "a\x00b", "ß,İ", "AaB1a22",
]  # fmt: skip
NUMBERS = [None, 0, 1, -1, 2, 3, -3, 40, -40, 2**31 - 1, -(2**31)]
ADDRESSES = [
    None, "", "10.0.0.1", "192.168.1.7", "8.8.8.8", "010.0.0.1", "1.2.3", "256.1.1.1", " 10.0.0.1 ", "::1", "2001:db8::5",
    "0.0.0.0", "::ffff:10.0.0.1", "fe80::1%eth0", "10.0.0.1%1", "255.255.255.255", "abc", "203.0.113.77", "1.2.3.4.5", "é",
]  # fmt: skip


def events() -> pa.RecordBatch:
    """All pairs of texts and numbers, in a batch that is a slice of another one."""
    pairs = [(text, number) for text in TEXTS for number in NUMBERS]
    texts, numbers = zip(*[("cut", 0), *pairs], strict=True)
    batch = pa.record_batch({"t": pa.array(texts, pa.string()), "n": pa.array(numbers, pa.int64())})
    return batch.slice(1)


def values(text: str, batch: pa.RecordBatch) -> list[Any]:
    found = compile_expression(text, batch.schema)(batch)
    assert found.failed is None
    result: list[Any] = found.values.to_pylist()
    return result


def by_rows(text: str, batch: pa.RecordBatch) -> list[Any]:
    """The values of constants: an event at a time is computed in Python."""
    out: list[Any] = []
    for row in batch.to_pylist():
        literal = {name: _literal(value) for name, value in row.items()}
        call = text
        for name, shown in literal.items():
            call = call.replace(f"{{{name}}}", shown)
        out += values(call, pa.record_batch({"unused": [0]}))
    return out


def _literal(value: Any) -> str:
    if value is None:
        return "cast(null as string)"
    return str(value) if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        "flink_substring({t}, {n})", "flink_substring({t}, {n}, 3)", "flink_substring({t}, 2, {n})",
        "flink_substring({t}, -3, {n})", "flink_left({t}, {n})", "flink_right({t}, {n})",
    ],
)  # fmt: skip
def test_parts_of_texts_at_positions_of_the_event(call: str) -> None:
    batch = events()
    called = call.format(t="t", n="cast(n as int)")
    rows = batch.filter(batch.column("n").is_valid())

    assert values(called, rows) == by_rows(call, rows)
    assert values(called, batch.filter(batch.column("n").is_null())) == [None] * len(TEXTS)


@pytest.mark.parametrize(
    "call",
    [
        "flink_translate({t}, 'a.', 'X')", "flink_translate({t}, 'aab', 'xyz')", "flink_translate({t}, ',', '')",
        "rsql_translate({t}, 'ab ', '01')", "flink_initcap({t})", "flink_split({t}, ',')", "flink_split({t}, 'b ')",
        "rsql_splitindex({t}, ',', 1)", "rsql_splitindex({t}, '\\\\.', '0')", "flink_split_index({t}, ',', 0)",
        "flink_regexp_count({t}, '[0-9]+')", "flink_regexp_count({t}, 'a|aB')", "flink_regexp_instr({t}, '[0-9]')",
        "flink_regexp_instr({t}, 'b')",
    ],
)  # fmt: skip
def test_functions_of_one_text(call: str) -> None:
    batch = pa.record_batch({"t": pa.array(["cut", *TEXTS], pa.string())}).slice(1)

    assert values(call.format(t="t"), batch) == by_rows(call, batch)


@pytest.mark.parametrize(
    "call",
    [
        "ip_version({t})", "ip_class({t})", "ip_is_private({t})", "ip_to_integer({t})", "ip_normalize({t})",
        "ip_network({t}, 20)", "ip_anonymize({t})", "ip_anonymize({t}, 8)", "ip_anonymize({t}, 0, 32)",
    ],
)  # fmt: skip
def test_functions_of_addresses(call: str) -> None:
    batch = pa.record_batch({"t": pa.array(["1.1.1.1", *ADDRESSES], pa.string())}).slice(1)

    assert values(call.format(t="t"), batch) == by_rows(call, batch)


def test_classes_of_addresses_are_those_of_the_registry() -> None:
    chosen = random.Random(7)
    numbers = [chosen.getrandbits(32) for _ in range(3000)] + [number for start in range(256) for number in (start << 24,)]
    numbers += [(192 << 24) + offset for offset in (*range(300), 170, 171)] + [(198 << 24) + (18 << 16), (198 << 24) + (20 << 16)]
    addresses = [ipaddress.IPv4Address(number) for number in numbers]

    found = values("ip_class(t)", pa.record_batch({"t": [str(one) for one in addresses]}))

    assert found == [_class(one) for one in addresses]


def test_wrong_base64_rejects_its_own_event_only() -> None:
    batch = pa.record_batch({"s": ["aGk=", "aGk", None, "!!", "w6k=", "Yf8=", ""]}).slice(1)

    found = compile_expression("flink_from_base64(s)", batch.schema)(batch)
    relaxed = compile_expression("base64_text(s)", batch.schema)(batch)

    assert found.values.to_pylist() == [None, None, None, "é", "a\ufffd", ""]
    assert found.failed is not None
    assert found.failed.to_pylist() == [True, False, True, False, False, False]
    assert relaxed.values.to_pylist() == ["hi", None, None, "é", "a\ufffd", ""]


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("hex_text(s)", ["hi", None, "hi", "", None]),
        ("flink_unhex(s)", [b"hi", None, None, b"", b"\x00"]),
        ("md5(s)", [None if one is None else hashlib.md5(one.encode()).hexdigest() for one in ("6869", None, "68 69", "", "f")]),
        (
            "flink_sha512(s)",
            [None if x is None else hashlib.sha512(x.encode()).hexdigest() for x in ("6869", None, "68 69", "", "f")],
        ),
        ("flink_to_base64(s)", ["Njg2OQ==", None, "NjggNjk=", "", "Zg=="]),
        ("hex(s)", ["36383639", None, "3638203639", "", "66"]),
    ],
)
def test_encodings_of_columns(expression: str, values: list[object]) -> None:
    batch = pa.record_batch({"s": ["6869", None, "68 69", "", "f"]})

    assert compile_expression(expression, batch.schema)(batch).values.to_pylist() == values


URL_PARTS = st.sampled_from(
    [
        "http",
        "HTTPS",
        "x",
        ":",
        "//",
        "/",
        "?",
        "#",
        "&",
        "=",
        "@",
        "a",
        "k",
        "k=v",
        "k.x=",
        "example.org",
        ":80",
        ":",
        " ",
        "ä",
        "\n",
    ]
)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.sampled_from(["HOST", "PATH", "QUERY", "QUERY", "REF", "PROTOCOL", "AUTHORITY", "FILE", "USERINFO", "host"]),
    st.lists(st.lists(URL_PARTS, max_size=12).map("".join), max_size=20),
)
def test_parts_of_urls_on_columns_are_those_of_each_url(part: str, drawn: list[str]) -> None:
    urls = [None, *(f"http:{one}" for one in drawn), *drawn]
    batch = pa.record_batch({"u": pa.array(urls, pa.string()), "p": pa.array([part] * len(urls)), "k": ["k.x"] * len(urls)})

    for key, of_column in ((None, ""), ("k.x", ", k")):
        constant = "" if key is None else f", '{key}'"
        found = compile_expression(f"flink_parse_url(u, '{part}'{constant})", batch.schema)(batch).values.to_pylist()
        each = compile_expression(f"flink_parse_url(u, p{of_column})", batch.schema)(batch).values.to_pylist()
        assert found == each == [None if url is None else parse_url(url, part, key) for url in urls]
