"""The kernel that runs an automaton's tables over the texts of a column: one look-up a byte, fewer if bytes can be skipped.

It writes captures as views (see `etl.columns.views`) while their text is still in the CPU's first cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import any_of_three, load_byte, trailing_zeros
from etl.columns.kernels import inlined, kernel, kernel_function
from etl.columns.views import put_view

STATE = np.uint32((1 << 20) - 1)
MOVES = np.uint32(20)
BLOCK = np.uint64(16)
ONE = np.uint64(1)
NONE = np.int32(-1)
HERE = np.int32(-2)
"""`etl.scanner.automata.registers.HERE`."""

_BYTE = np.uint64(8)
"""Bits of a byte: a row of ``runs`` has an entry for each byte."""


@kernel_function
def _find(address: Any, end: Any, first: Any, second: Any, third: Any) -> Any:
    """The first address from ``address`` on that has one of three bytes, or ``end``."""
    while address + BLOCK <= end:
        hits = any_of_three(address, first, second, third)
        if hits != 0:
            return address + np.uint64(trailing_zeros(hits))
        address += BLOCK
    while address < end:
        byte = load_byte(address)
        if byte == first or byte == second or byte == third:  # noqa: SIM109
            return address
        address += ONE
    return address


@kernel_function
def _position(source: Any, end: Any, remembered: Any) -> Any:
    """The position of a tag at a match: that of a register, the end of the text read, or -1."""
    if source >= 0:
        return remembered[np.uint64(source)]
    return end if source == HERE else NONE


@kernel_function
def _put_capture(view: Any, text: Any, begin: Any, end: Any, base: Any) -> Any:
    """Write the view of the text between two positions (-1: none); returns whether it has bytes."""
    size = np.int64(end) - np.int64(begin)
    source = text + np.uint64(max(np.int64(begin), np.int64(0)))
    put_view(view, source, size, source - base)
    return size > 0


@inlined
def _move(move: Any, last: Any, move_to: Any, move_from: Any, remembered: Any, here: Any) -> None:
    """Execute a list of register moves; a negative source is the current position ``here``."""
    while move < last:
        source = move_from[np.uint64(move)]
        remembered[np.uint64(move_to[np.uint64(move)])] = here if source < 0 else remembered[np.uint64(source)]
        move += np.int32(1)


@inlined
def _put_captures(
    view: Any, next_view: Any, valid: Any, final: Any, at: Any, capture_registers: Any, remembered: Any, text: Any, base: Any
) -> None:
    """Write the captures of a text whose match ends at ``at``; the views of two captures are ``next_view`` bytes apart."""
    for k in range(valid.shape[0]):
        begin, end = NONE, NONE
        if final >= 0:
            begin = _position(capture_registers[final, 2 * k], at, remembered)
            end = _position(capture_registers[final, 2 * k + 1], at, remembered)
        valid[k] = _put_capture(view, text, begin, end, base)
        view += next_view


@kernel
def scan(
    address: Any, length: Any, base: Any, entries: Any, classes: Any, shift: Any, start: Any, kinds: Any, runs: Any,
    found: Any, move_starts: Any, move_to: Any, move_from: Any, finals: Any, patterns: Any, capture_registers: Any,
    remembered: Any, pattern: Any, views: Any, valid: Any,
) -> None:  # fmt: skip
    """Texts → for each, the pattern that matched (-1 none, -2 unknown) and its captures.

    ``address`` uint64[n] and ``length`` int64[n] (negative: null) are the texts, ``base`` the address of their buffer; the
    arrays of `TransitionTables` follow, and ``remembered`` int32[registers + 1], the registers. Results go to ``pattern``
    int32[n], to ``views``, an address with room for captures times n views, and to ``valid`` uint8[captures, n], which is 0 for
    a capture that took no part or is empty.
    """
    texts = valid.shape[1]
    running, finding, skipping, decided = kinds[0], kinds[1], kinds[2], kinds[3]
    wide = np.uint64(shift)
    for n in range(texts):
        final, text = NONE, address[n]
        here = text
        if length[n] >= 0:
            end = text + np.uint64(length[n])
            state = np.uint32(start)
            while True:
                if state < decided:
                    row = np.uint64(state) >> wide
                    if state < running:
                        if state == 0:
                            break
                        run_row = row << _BYTE
                        while here < end and runs[run_row + np.uint64(load_byte(here))] != 0:
                            here += ONE
                    elif state < finding:
                        stop = row - (np.uint64(running) >> wide)
                        here = _find(here, end, found[stop, 0], found[stop, 1], found[stop, 2])
                    elif state < skipping:
                        here = end
                    else:
                        final = finals[row]
                        break
                if here >= end:
                    final = finals[np.uint64(state) >> wide]
                    break
                entry = entries[np.uint64(state) + np.uint64(classes[np.uint64(load_byte(here))])]
                if entry > STATE:
                    list_ = np.uint64(entry >> MOVES)
                    _move(move_starts[list_], move_starts[list_ + ONE], move_to, move_from, remembered, np.int32(here - text))
                state = entry & STATE
                here += ONE
        pattern[n] = patterns[final] if final >= 0 else NONE
        view = views + np.uint64(n) * BLOCK
        _put_captures(
            view, np.uint64(texts) * BLOCK, valid[:, n], final, np.int32(here - text), capture_registers, remembered, text, base
        )
