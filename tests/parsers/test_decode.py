"""The parser `decode`: encodings, compression, character sets."""

from __future__ import annotations

import base64
import gzip
import zlib
from typing import Any
from urllib.parse import unquote_plus, unquote_to_bytes

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.decode.parser import Decode

ENCODINGS = ["base64", "base64url", "hex", "percent", "form", "escapes", "latin1", "byte_array"]


def run(step: Decode, *texts: str | None) -> tuple[list[str | None], list[str]]:
    batch = pa.RecordBatch.from_pydict({"message": pa.array(texts, pa.string())})
    events, rejects = step.open(batch.schema)(batch)
    assert events.schema == step.fields(batch.schema)
    assert events.num_rows + sum(reject.events.num_rows for reject in rejects) == len(texts)
    reasons = [reason for reject in rejects for reason in reject.reasons.to_pylist()]
    return events.column(step.target or "message").to_pylist(), reasons


def decoded(text: str, **options: Any) -> str | None:
    """The text, or None when it failed."""
    (texts, reasons) = run(Decode(**options), text)
    assert len(texts) + len(reasons) == 1
    return texts[0] if texts else None


@pytest.mark.parametrize(("charset", "byte"), [("latin-1", "ü"), ("cp1252", "€"), ("koi8-r", "Ж"), ("iso-8859-15", "€")])
def test_charsets_of_one_byte(charset: str, byte: str) -> None:
    assert decoded(byte.encode(charset).hex() + "41", encoding="hex", charset=charset) == byte + "A"


def test_bytes_kept_by_a_source_that_read_latin_1() -> None:
    seen = "登录失败".encode("gbk").decode("latin-1")

    assert decoded(f"user: {seen}", encoding="latin1", charset="gbk") == "user: 登录失败"


COMPRESS = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "deflate": lambda data: zlib.compress(data)[2:-4],
}


@pytest.mark.parametrize("compression", COMPRESS)
def test_compression(compression: str) -> None:
    packed = [COMPRESS[compression](data) for data in (b"one", b"", b"x" * 10_000)]
    texts = [base64.b64encode(data).decode() for data in packed]

    good, reasons = run(Decode(encoding="base64", compression=compression), *texts, None, texts[2][:8], "Q" * 8, "*")

    assert good == ["one", "", "x" * 10_000, None]
    assert len(reasons) == 3
    assert all("is not" in reason for reason in reasons)


def test_several_members_of_gzip_are_one_text() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"two")

    assert decoded(data.hex(), encoding="hex", compression="gzip") == "one two"


def test_a_bomb_fails_at_the_limit() -> None:
    bomb = base64.b64encode(gzip.compress(bytes(50_000_000))).decode()

    texts, reasons = run(Decode(encoding="base64", compression="gzip", max_bytes="64KiB"), bomb)

    assert texts == []
    assert reasons == ["is not gzip: it holds more than 65536 bytes"]


def test_target_and_keep() -> None:
    batch = pa.RecordBatch.from_pydict({"message": ["QQ==", "*"], "n": [1, 2]})

    kept, _ = Decode(encoding="base64", on_error="keep").open(batch.schema)(batch)
    beside, _ = Decode(encoding="base64", target="text", on_error="drop", keep_field=True).open(batch.schema)(batch)

    assert kept.to_pylist() == [{"message": "A", "n": 1}, {"message": "*", "n": 2}]
    assert beside.to_pylist() == [{"message": "QQ==", "n": 1, "text": "A"}]


@pytest.mark.parametrize("charset", ["gkb", "rot13", "base64", "utf-7", "unicode_escape", "idna", "a\0b"])
def test_charsets_that_are_none(charset: str) -> None:
    (finding,) = Decode(encoding="hex", charset=charset).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path) == ("unknown-charset", ("charset",))


def test_null_slices_and_views() -> None:
    texts = pa.array(["QQ==", None, "QkI=", "Q0ND" * 20]).slice(1)

    for column in (texts, texts.cast(pa.string_view()), texts.cast(pa.large_string())):
        parsed = Decode(encoding="base64").compile()(column)

        assert parsed.failed is None
        assert parsed.columns["message"].to_pylist() == [None, "BB", "CCC" * 20]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_what_was_encoded_comes_back(values: list[bytes]) -> None:
    """Through latin-1, which has every byte."""
    written = {
        "base64": [base64.b64encode(one).decode() for one in values],
        "base64url": [base64.urlsafe_b64encode(one).decode().rstrip("=") for one in values],
        "hex": [one.hex() for one in values],
        "percent": ["".join(f"%{byte:02X}" for byte in one) for one in values],
        "escapes": ["".join(f"\\x{byte:02x}" for byte in one) for one in values],
        "latin1": [one.decode("latin-1") for one in values],
    }
    for encoding, texts in written.items():
        got, reasons = run(Decode(encoding=encoding, charset="latin-1"), *texts)

        assert (got, reasons) == ([one.decode("latin-1") for one in values], []), encoding


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text("%+aF0\\xn4ü=", max_size=20), max_size=5))
def test_percent_is_that_of_urllib(texts: list[str]) -> None:
    assert run(Decode(encoding="percent", charset="latin-1"), *texts)[0] == [unquote_to_bytes(t).decode("latin-1") for t in texts]
    assert run(Decode(encoding="form", invalid="replace"), *texts)[0] == [
        unquote_to_bytes(t.replace("+", " ")).decode("utf-8", "replace") for t in texts
    ]
    assert unquote_plus("a+b%2Bc") == "a b+c"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | st.text(max_size=30) | st.text("QUJD=+/ \\x%0", max_size=30), max_size=5), st.sampled_from(ENCODINGS))
def test_no_text_raises(texts: list[str | None], encoding: str) -> None:
    for options in ({}, {"charset": "gbk"}, {"compression": "gzip"}):
        run(Decode(encoding=encoding, **options), *texts)


@pytest.mark.parametrize("pattern", ["(?<a>", "x", "(?<a>x)(?<b>y)", "%{IP:ip}"])
def test_a_pattern_of_parts_without_one_capture_is_told(pattern: str) -> None:
    findings = list(Decode(encoding="hex", within=pattern).check(pa.schema([("message", pa.string())])))

    assert [(finding.code, finding.path) for finding in findings] == [("bad-regex", ("within",))]
