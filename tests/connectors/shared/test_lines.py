"""Cutting lines, with blocks of any size."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.shared.lines import line_cutter
from connectors.shared.lines.charset import charset
from connectors.shared.lines.line_cutter import LineCutter
from etl.api import OFFSET, Rejects

pieces = st.sampled_from(
    [b"\n", b"\r\n", b"\r", b"\0", b"a", b"abc" * 5, "é".encode(), "中".encode(), b"\xff", b"\xe4\xb8", b"\xf0", b"\xef\xbb\xbf"]
)


def cut(data: bytes, codec: str = "utf-8", longest: int = 1 << 20, at: int = 0) -> list[tuple[int, str]]:
    """Return offsets and texts in order; texts of dead letters begin with '!'."""
    found: list[tuple[int, str]] = []
    for batch in LineCutter(charset(codec), longest).cut_batches(io.BytesIO(data).readinto, at):
        mark = "!" if isinstance(batch, Rejects) else ""
        events = batch.events if isinstance(batch, Rejects) else batch
        events.validate(full=True)
        texts = (mark + text for text in events.column("message").to_pylist())
        found += zip(events.column(OFFSET).to_pylist(), texts, strict=True)
    return sorted(found)


def plain(data: bytes, codec: str = "utf-8", longest: int = 1 << 20) -> list[tuple[int, str]]:
    """Return the same as `cut`, computed line by line."""
    found, at = [], 0
    for line in data.split(b"\n"):
        if at < len(data):
            kept = line.removesuffix(b"\r")
            text = kept.decode(codec, "replace")
            if at == 0 and codec == "utf-8":
                text = text.removeprefix("\ufeff")
            found.append((at, "!" + line[:1].decode(codec, "replace") if len(line) > longest else text))
        at += len(line) + 1
    return found


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda size: monkeypatch.setattr(line_cutter, "BLOCK_BYTES", size)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(pieces, max_size=40).map(b"".join), st.sampled_from([4, 8, 64, 4096]), st.sampled_from([1, 7, 1000]))
def test_lines_equal_lines_cut_one_by_one(data: bytes, block: int, longest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_cutter, "BLOCK_BYTES", block)
        patch.setattr(line_cutter, "REJECT_SAMPLE_BYTES", 1)
        assert cut(data, longest=longest) == plain(data, longest=longest)


@pytest.mark.slow
@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["latin-1", "gbk", "shift_jis", "gb18030", "cp1252", "euc_kr"]))
def test_other_charsets_equal_lines_decoded_one_by_one(data: bytes, codec: str) -> None:
    assert cut(data, codec) == plain(data, codec)


@settings(deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=50),
    st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le"]),
)
def test_wide_charsets(text: str, codec: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_cutter, "BLOCK_BYTES", 8)
        found = cut(("\ufeff" + text).encode(codec), codec)

    whole = text.split("\n")
    assert [line for _, line in found] == (whole if whole[-1] or len(whole) == 1 else whole[:-1])


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_any_bytes_in_a_wide_charset(data: bytes) -> None:
    assert len(cut(data, "utf-16-le")) <= data.count(b"\n") + 1


def test_offsets_are_those_of_the_raw_bytes() -> None:
    assert cut(b"\xff\n\r\n\nab", at=100) == [(100, "\ufffd"), (102, ""), (104, ""), (105, "ab")]


def test_byte_order_mark_is_dropped_at_the_beginning_only() -> None:
    assert cut(b"\xef\xbb\xbfa\n") == [(0, "a")]
    assert cut(b"\xef\xbb\xbfa\n", at=5) == [(5, "\ufeffa")]


def test_the_reject_of_a_long_line_has_its_beginning_and_length(small_blocks: Callable[[int], None]) -> None:
    small_blocks(4096)
    data = b"a\n" + b"x" * 1_000_000 + b"\nb"
    found = list(LineCutter(charset("utf-8"), 10_000).cut_batches(io.BytesIO(data).readinto, 0))

    (rejects,) = (batch for batch in found if isinstance(batch, Rejects))
    assert rejects.code == "line-too-long"
    assert isinstance(rejects.reasons, pa.StringArray)
    assert rejects.reasons.to_pylist() == ["the line has 1000000 bytes, more than max_line_bytes 10000"]
    assert cut(data, longest=10_000)[2] == (1_000_002 + 1, "b")
    assert len(rejects.events.column("message")[0].as_py()) <= line_cutter.REJECT_SAMPLE_BYTES


def test_no_bytes_give_no_lines() -> None:
    assert cut(b"") == []


def test_a_block_of_newlines_is_batches_of_bounded_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_cutter, "MAX_BATCH_ROWS", 10)

    batches = list(LineCutter(charset("utf-8"), 1 << 20).cut_batches(io.BytesIO(b"\n" * 25).readinto, 100))

    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert [offset for batch in batches for offset in batch.column(OFFSET).to_pylist()] == list(range(100, 125))


def test_blocks_are_small_again_after_a_long_line(small_blocks: Callable[[int], None]) -> None:
    small_blocks(64)
    data = b"x" * 1000 + b"\n" + b"short\n" * 100

    batches = [batch for batch in LineCutter(charset("utf-8"), 1 << 20).cut_batches(io.BytesIO(data).readinto, 0) if len(batch)]

    assert sum(len(batch) for batch in batches) == 101
    assert max(len(batch) for batch in batches[3:]) <= line_cutter.MAX_BLOCK_GROWTH * 64 // 6
