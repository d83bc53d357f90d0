"""Lines of a block equal those that Python splits, whatever the bytes and wherever the block begins."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.columns.lines import cut, survey

pieces = st.sampled_from(["\n", "\r\n", "\r", "\0", "a", "abc" * 4, "x" * 13, "q" * 16, "long" * 40, "é", "中" * 6])
blocks = st.lists(pieces, max_size=60).map("".join)


def by_hand(text: str, last: bool) -> tuple[list[str], list[int]]:
    parts = text.split("\n")
    parts = parts if last else parts[:-1]
    starts, at = [], 0
    for part in parts:
        starts.append(at)
        at += len(part.encode()) + 1
    return [part.removesuffix("\r") for part in parts], starts


@settings(deadline=None)
@given(blocks, st.integers(0, 17))
def test_lines_equal_those_cut_by_hand(text: str, shift: int) -> None:
    raw = pa.py_buffer(b"\n" * shift + text.encode() + b"\n" * 20).slice(shift, len(text.encode()))
    last = not text.endswith("\n")

    seen = survey(raw)
    found = cut(raw, seen.newlines, last)

    found.texts.validate(full=True)
    assert seen == (text.count("\n"), text.isascii())
    assert (found.texts.to_pylist(), found.starts.tolist()) == by_hand(text, last)
    assert cut(raw, seen.newlines, last, at=1 << 40).starts.tolist() == [(1 << 40) + start for start in found.starts]
    assert found.longest == max(map(len, text.encode().split(b"\n")))


@settings(deadline=None)
@given(blocks)
def test_a_block_that_ends_where_memory_ends(at_the_end_of_memory: Callable[[bytes], pa.Buffer], text: str) -> None:
    block = at_the_end_of_memory(text.encode())

    found = cut(block, survey(block).newlines, True)

    assert found.texts.to_pylist() == by_hand(text, True)[0]


def test_skipped_bytes_do_not_belong_to_the_first_line() -> None:
    found = cut(pa.py_buffer(b"...a\r\nb"), 1, True, skip=3)

    assert (found.texts.to_pylist(), found.starts.tolist()) == (["a", "b"], [0, 6])
    assert cut(pa.py_buffer(b"...\n...b\n"), 2, False, skip=3).texts.to_pylist() == ["", "...b"]
    assert cut(pa.py_buffer(b"..."), 0, True, skip=3).texts.to_pylist() == [""]


def test_no_bytes() -> None:
    empty = pa.py_buffer(b"")

    assert survey(empty) == (0, True)
    assert cut(empty, 0, False).texts.to_pylist() == []
    assert cut(empty, 0, True).texts.to_pylist() == [""]
