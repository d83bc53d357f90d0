"""Our own functions: values, and texts of any kind, which give null instead of an error."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.expressions import analyse, compile_expression
from etl.expressions.library.catalogue import functions
from etl.expressions.library.own.quantities import _duration, _show_duration

ONE_ROW = pa.record_batch({"": [0]})


def evaluate(text: str, **columns: list[object]) -> list[object]:
    batch = pa.record_batch(columns) if columns else ONE_ROW
    found = compile_expression(text, batch.schema)(batch)
    assert found.failed is None or not found.failed.true_count, found.reasons
    values: list[object] = found.values.to_pylist()
    return values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ip_version('fe80::1%eth0')", 6),
        ("ip_version('::ffff:192.0.2.1')", 4),
        ("ip_version('1.2.3')", None),
        ("ip_class('8.8.8.8')", "public"),
        ("ip_class('169.254.0.1')", "link_local"),
        ("ip_class('fd00::1')", "private"),
        ("ip_class('100.64.1.1')", "carrier_nat"),
        ("ip_class('224.0.0.1')", "multicast"),
        ("ip_class('2001:db8::7')", "documentation"),
        ("ip_is_private('172.32.0.1')", False),
        ("ip_network('2001:db8:1:2::3', 48)", "2001:db8:1::/48"),
        ("ip_anonymize('2001:db8:1:2::3')", "2001:db8:1::"),
        ("ip_anonymize('10.1.2.3', 16)", "10.1.0.0"),
        ("ip_from_integer(1, 6)", "::1"),
        ("ip_from_integer(-1)", None),
        ("flink_cast(ip_to_integer('::1:0:0'), 'string')", "4294967296"),
        ("parse_size('1.5 KiB')", 1536),
        ("parse_size('2G')", 2_000_000_000),
        ("parse_size('x')", None),
        ("parse_size('99999999999E')", None),
        ("parse_duration('250ms')", 0.25),
        ("parse_duration('1 day 2 hours')", 93600.0),
        ("parse_duration('-00:01:30')", -90.0),
        ("parse_duration('P1DT2H')", 93600.0),
        ("parse_duration('soon')", None),
        ("format_duration(93784.5)", "1d2h3m4.5s"),
        ("mac_normalize('0:1a:2b:3c:4d:5e')", "00:1a:2b:3c:4d:5e"),
        ("mac_normalize('001A2B3C4D5E', '-')", "00-1a-2b-3c-4d-5e"),
        ("mac_normalize('001A2B3C4D')", None),
        ("hmac_hex('m', 'k', 'sha512')", hmac.new(b"k", b"m", hashlib.sha512).hexdigest()),
        ("base64_text('_-8')", "\ufffd\ufffd"),
        ("hex_text('zz')", None),
        ("url_parameter('http://h/?a=1&q=x+y', 'q')", "x y"),
        ('json_get(\'{"a": [{"b": "x"}]}\', \'$.a[0].b\')', "x"),
        ("json_get('{\"a\": 1.50}', '$.a')", "1.50"),
        ("json_get('[', '$')", None),
        ("json_type('{}')", "object"),
        ("key_value('a=1, b=\"2 \\\\\" 3\"', 'b')", '2 " 3'),
        ("edit_distance('kitten', 'sitting')", 3),
        ("edit_distance('kitten', 'sitting', 2)", -1),
        ("similarity('', '')", 1.0),
        ("registered_domain('https://u@a.b.Example.CO.UK:8443/x?y')", "example.co.uk"),
        ("registered_domain('bücher.example.de.')", "example.de"),
        ("registered_domain('example')", None),
        ("registered_domain('co.uk')", None),
        ("registered_domain('10.0.0.1')", None),
        ("registered_domain('not a domain')", None),
        ("registered_domain(cast(null as string))", None),
        ("registered_domain('me.github.io')", "me.github.io"),
        ("subdomain('a.b.me.github.io')", "a.b"),
        ("subdomain('example.org')", None),
        ("public_suffix('co.uk')", "co.uk"),
        ("public_suffix('host.internal')", "internal"),
    ],
)
def test_values(text: str, value: object) -> None:
    assert evaluate(text) == [value]


def test_grok_is_a_function() -> None:
    texts: list[object] = ["GET /x", "bad", None, "PUT /y\udc80"[:6]]
    pattern = "'%{WORD:method} %{NOTSPACE:path}'"

    assert evaluate(f"grok(a, {pattern})", a=texts) == [
        [("method", "GET"), ("path", "/x")],
        None,
        None,
        [("method", "PUT"), ("path", "/y")],
    ]
    assert evaluate(f"grok_get(a, {pattern}, 'path')", a=texts) == ["/x", None, None, "/y"]
    assert evaluate("grok(a, '%{WORD:w}( %{WORD:w})?|(?<n>x)')", a=["a b", "a"]) == [[("w", '["a", "b"]')], [("w", '["a"]')]]


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("grok(a, '%{WRD:m}')", "there is no grok pattern 'WRD'", "did you mean 'WORD'?"),
        ("grok_get(a, '%{WORD:m}', 'n')", "the pattern has no field 'n'", "it has m"),
        ("grok(a, a)", "the pattern is a constant in quotes", None),
    ],
)
def test_mistakes_of_patterns_are_found_before_the_run(call: str, message: str, hint: str | None) -> None:
    [finding] = analyse(call, pa.schema([("a", pa.string())])).findings

    assert (finding.message, finding.hint) == (message, hint)


HOSTILE = [
    "",
    " ",
    "\0",
    "\ufffd",
    "😀" * 300,
    "9" * 5000,
    "a=" * 2000,
    "[" * 5000,
    "::" * 100,
    "%" * 99,
    "-",
    "P",
    "1e999999999",
    None,
]


def test_texts_of_any_kind_give_null_or_a_value() -> None:
    for function in functions("own").values():
        if function.arguments == "text: string" or function.arguments in ("address: text", "value: text"):
            assert len(evaluate(f"{function.name}(x)", x=list(HOSTILE))) == len(HOSTILE)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_an_address_is_its_number(number: int) -> None:
    address = str(ipaddress.IPv4Address(number))
    assert evaluate("ip_from_integer(ip_to_integer(a))", a=[address]) == [address]


@given(st.integers(0, 10**9))
@settings(max_examples=100)
def test_a_duration_that_is_written_reads_the_same(millis: int) -> None:
    shown = _show_duration(millis / 1000)
    assert shown is not None
    assert _duration(shown) == pytest.approx(millis / 1000, abs=0.01)


def test_a_hash_that_does_not_exist_rejects_the_event() -> None:
    events = pa.record_batch({"hash": ["sha0"]})

    found = compile_expression("hmac_hex('m', 'k', hash)", events.schema)(events)

    assert found.reasons is not None
    assert found.reasons[0].as_py().startswith("there is no hash 'sha0'")
