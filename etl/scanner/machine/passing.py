"""Code that passes several bytes at once: those that keep a state, and words that must follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from etl.scanner.machine.words import BIT, BLOCK, BYTE, HALF, LONG, SIXTEEN, WORD, CodeWriter, block_loads_safely, sixteen

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

MOST_RANGES = 4
"""Ranges of bytes that sixteen bytes are compared with at once; where a set has more, bytes are looked up one by one."""

Range = tuple[int, int]
"""The first byte and the last."""


def pass_over(code: CodeWriter, stays: Array) -> None:
    """Go to the first byte that does not keep the state (bool[256]), or to the text's end."""
    if stays.sum() < 2:
        return
    stops, kept = ranges(~stays), ranges(stays)
    if min(len(stops), len(kept)) > MOST_RANGES:
        _look_up(code, stays)
    elif len(stops) <= len(kept):
        _find(code, lambda bytes_: _within(code, bytes_, stops))
    else:
        _find(code, lambda bytes_: code.build.not_(_within(code, bytes_, kept)))


def ranges(bytes_: Array) -> list[Range]:
    """The runs of bytes that are in a set (bool[256])."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bytes_, [False]]).astype(np.int8)))
    return [(int(first), int(behind) - 1) for first, behind in zip(edges[::2], edges[1::2], strict=True)]


def _find(code: CodeWriter, stops: Callable[[Any], Any]) -> None:
    """Look at sixteen bytes at a time, and at one where a page of memory may end before them."""
    build = code.build
    look, page, many, found, none, one, step, done = map(
        code.block, ("look", "page", "many", "hit", "none", "one", "step", "past")
    )
    code.go(look)
    code.at(look)
    here = code.here
    code.here = build.select(code.before_end(here), here, code.end)
    code.choose(code.before_end(here), page, done)
    code.at(page)
    code.choose(block_loads_safely(build, here), many, one)
    code.at(many)
    hits = build.bitcast(stops(code.load(here, BLOCK)), HALF)
    code.choose(build.icmp_unsigned("!=", hits, HALF(0)), found, none)
    code.at(found)
    at = build.add(here, build.zext(build.cttz(hits, BIT(1)), LONG))
    code.here = build.select(code.before_end(at), at, code.end)
    code.go(done)
    code.at(none)
    code.here = build.add(here, LONG(SIXTEEN))
    code.go(look)
    code.at(one)
    code.choose(stops(code.load(here, BYTE)), done, step)
    code.at(step)
    code.here = build.add(here, LONG(1))
    code.go(look)
    code.at(done)


def _look_up(code: CodeWriter, stays: Array) -> None:
    """One by one, in a table of its own."""
    build, module, kind = code.build, code.function.module, ir.ArrayType(BYTE, 256)
    table = ir.GlobalVariable(module, kind, module.get_unique_name("stays"))
    table.global_constant, table.linkage = True, "internal"
    table.initializer = kind([BYTE(int(stay)) for stay in stays])
    look, inside, step, done = map(code.block, ("look", "inside", "step", "past"))
    code.go(look)
    code.at(look)
    here = code.here
    code.choose(code.before_end(here), inside, done)
    code.at(inside)
    kept = build.load(build.gep(table, [WORD(0), build.zext(code.load(here, BYTE), WORD)]))
    code.choose(build.icmp_unsigned("!=", kept, BYTE(0)), step, done)
    code.at(step)
    code.here = build.add(here, LONG(1))
    code.go(look)
    code.at(done)


def _within(code: CodeWriter, bytes_: Any, sets: Sequence[Range]) -> Any:
    """Whether a byte, or which of sixteen, are in one of the ranges."""
    build = code.build

    def constant(byte: int) -> Any:
        return sixteen(byte) if bytes_.type == BLOCK else BYTE(byte)

    found = [build.icmp_unsigned("<=", build.sub(bytes_, constant(low)), constant(high - low)) for low, high in sets]
    together = found[0]
    for other in found[1:]:
        together = build.or_(together, other)
    return together


def differs(code: CodeWriter, here: Any, word: bytes) -> Any:
    """A number that is 0 when the word lies at an address: eight bytes at once."""
    build, different = code.build, LONG(0)
    for at, size in _pieces(len(word)):
        kind = ir.IntType(8 * size)
        loaded = code.load(build.add(here, LONG(at)), kind)
        other = build.xor(loaded, kind(int.from_bytes(word[at : at + size], "little")))
        different = build.or_(different, build.zext(other, LONG) if size < 8 else other)
    return different


def _pieces(length: int) -> list[tuple[int, int]]:
    """Places and sizes of loads that cover so many bytes; the last may overlap the one before."""
    size = next(size for size in (8, 4, 2, 1) if size <= length)
    pieces = [(at, size) for at in range(0, length - size + 1, size)]
    return pieces if length % size == 0 else [*pieces, (length - size, size)]
