"""Generates code for several bytes at once: skipping self-loops, and comparing literals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from etl.scanner.codegen.code_writer import BIT, BLOCK, BLOCK_BYTES, BYTE, HALF, LONG, WORD, CodeWriter, emit_page_check, splat

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

MAX_RANGES = 4
"""Ranges of bytes that sixteen bytes are compared with at once; for a set with more ranges, bytes are looked up one by one."""

Range = tuple[int, int]
"""The first byte and the last."""


def emit_skip(code: CodeWriter, stays: Array) -> None:
    """Emit code that moves to the first byte that is not a self-loop (bool[256]), or to the text's end."""
    if stays.sum() < 2:
        return
    stops, skipped_ranges = ranges(~stays), ranges(stays)
    if min(len(stops), len(skipped_ranges)) > MAX_RANGES:
        _look_up(code, stays)
    elif len(stops) <= len(skipped_ranges):
        _find(code, lambda bytes_: _within(code, bytes_, stops))
    else:
        _find(code, lambda bytes_: code.build.not_(_within(code, bytes_, skipped_ranges)))


def ranges(bytes_: Array) -> list[Range]:
    """The ranges of bytes in a set (bool[256])."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bytes_, [False]]).astype(np.int8)))
    return [(int(first), int(stop) - 1) for first, stop in zip(edges[::2], edges[1::2], strict=True)]


def _find(code: CodeWriter, stops: Callable[[Any], Any]) -> None:
    """Emit a search: sixteen bytes at a time, and single bytes near the end of a page of memory."""
    build = code.build
    look, page, many, found, none, one, step, done = map(
        code.block, ("look", "page", "many", "hit", "none", "one", "step", "past")
    )
    code.jump(look)
    code.at(look)
    here = code.here
    code.here = build.select(code.before_end(here), here, code.end)
    code.branch_if(code.before_end(here), page, done)
    code.at(page)
    code.branch_if(emit_page_check(build, here), many, one)
    code.at(many)
    hits = build.bitcast(stops(code.load(here, BLOCK)), HALF)
    code.branch_if(build.icmp_unsigned("!=", hits, HALF(0)), found, none)
    code.at(found)
    at = build.add(here, build.zext(build.cttz(hits, BIT(1)), LONG))
    code.here = build.select(code.before_end(at), at, code.end)
    code.jump(done)
    code.at(none)
    code.here = build.add(here, LONG(BLOCK_BYTES))
    code.jump(look)
    code.at(one)
    code.branch_if(stops(code.load(here, BYTE)), done, step)
    code.at(step)
    code.here = build.add(here, LONG(1))
    code.jump(look)
    code.at(done)


def _look_up(code: CodeWriter, stays: Array) -> None:
    """Emit a loop over single bytes with a look-up table."""
    build, module, kind = code.build, code.function.module, ir.ArrayType(BYTE, 256)
    table = ir.GlobalVariable(module, kind, module.get_unique_name("stays"))
    table.global_constant, table.linkage = True, "internal"
    table.initializer = kind([BYTE(int(stay)) for stay in stays])
    look, inside, step, done = map(code.block, ("look", "inside", "step", "past"))
    code.jump(look)
    code.at(look)
    here = code.here
    code.branch_if(code.before_end(here), inside, done)
    code.at(inside)
    is_skipped = build.load(build.gep(table, [WORD(0), build.zext(code.load(here, BYTE), WORD)]))
    code.branch_if(build.icmp_unsigned("!=", is_skipped, BYTE(0)), step, done)
    code.at(step)
    code.here = build.add(here, LONG(1))
    code.jump(look)
    code.at(done)


def _within(code: CodeWriter, bytes_: Any, sets: Sequence[Range]) -> Any:
    """Emit a comparison: whether a byte is in one of the ranges, or which of sixteen bytes are."""
    build = code.build

    def constant(byte: int) -> Any:
        return splat(byte) if bytes_.type == BLOCK else BYTE(byte)

    found = [build.icmp_unsigned("<=", build.sub(bytes_, constant(low)), constant(high - low)) for low, high in sets]
    together = found[0]
    for other in found[1:]:
        together = build.or_(together, other)
    return together


def emit_difference(code: CodeWriter, here: Any, word: bytes) -> Any:
    """Emit a comparison with a literal, eight bytes at once; the result is 0 if it is equal."""
    build, different = code.build, LONG(0)
    for at, size in _split_loads(len(word)):
        kind = ir.IntType(8 * size)
        loaded = code.load(build.add(here, LONG(at)), kind)
        other = build.xor(loaded, kind(int.from_bytes(word[at : at + size], "little")))
        different = build.or_(different, build.zext(other, LONG) if size < 8 else other)
    return different


def _split_loads(length: int) -> list[tuple[int, int]]:
    """Offsets and sizes of loads that cover ``length`` bytes; the last may overlap the one before."""
    size = next(size for size in (8, 4, 2, 1) if size <= length)
    pieces = [(at, size) for at in range(0, length - size + 1, size)]
    return pieces if length % size == 0 else [*pieces, (length - size, size)]
